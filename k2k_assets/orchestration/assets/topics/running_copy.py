"""Finds the instance that copies topics continuously, and its positions, to answer a click on Materialize.

A copy by the run itself would take the partitions over and give them back, with a pause each time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from k2k_assets.control.assignment_records import Claim
from k2k_assets.control.assignment_state import Assignments
from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.control.commit_log import CommitLog, read_commit_log
from k2k_assets.control.commit_record import forms_of
from k2k_assets.control.pause_records import Pause
from k2k_assets.coordination.liveness import Liveness, heartbeat_interval_seconds, heartbeat_timeout_seconds
from k2k_assets.core.deadline import Deadline
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.orchestration.assets.topics.topic_report import out_of_step
from k2k_assets.pipeline import Pipeline

# Longest wait until the running copy reaches the source's end at the time of the request.
CATCH_UP_SECONDS = 3.0
_POLL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class FollowedTopic:
    """A topic that an instance copies continuously.

    Attributes:
        copied_by: The instance.
        ends: `Pipeline.readable_end` of each source partition at the time of the request.
        positions: Committed positions after that.
        topic_id: Id of the source topic; empty if it is not known.
        paused: The topic's pause; None if it is not paused.
        form: How its records are brought, see `forms_of`.
    """

    copied_by: str
    ends: Mapping[int, int]
    positions: Mapping[int, int]
    topic_id: str
    paused: Pause | None = None
    form: str = ""

    @property
    def lag(self) -> int:
        """Source offsets before `ends` that are not copied yet."""
        return sum(max(0, end - self.positions.get(n, 0)) for n, end in self.ends.items())


def followed_topics(
    pipeline: Pipeline,
    source: Cluster,
    target: Cluster,
    topics: Collection[str],
    lives: Callable[[str], bool] = lambda run: False,
) -> dict[str, FollowedTopic]:
    """Topics of which a living instance copies all partitions continuously, none of them out of step.

    Args:
        pipeline: The pipeline.
        source: Source cluster.
        target: Target cluster.
        topics: Source topics.
        lives: Tells whether the process of a Dagster run certainly lives; of others a heartbeat is waited for.

    Raises:
        K2KError: A cluster does not answer.
    """
    if not target.describe([pipeline.coordination.assignment.topic]):
        return {}  # no instance has started yet
    partitions = source.partitions_of(list(topics))
    copied_by, paused = _copied_by(pipeline, target, topics, partitions, lives)
    if not copied_by:
        return {}
    partitions = [tp for tp in partitions if tp.topic in copied_by]
    ends = source.led_offsets(partitions, pipeline.readable_end).offsets
    awaited = {tp: end for tp, end in ends.items() if tp.topic not in paused}
    log = _caught_up(pipeline, source, target, awaited)
    described = source.describe_async(copied_by, partly=True)()
    left_out = out_of_step(log, described)
    return {
        topic: FollowedTopic(
            who,
            {tp.partition: end for tp, end in ends.items() if tp.topic == topic},
            {tp.partition: record.position for tp, record in log.positions.items() if tp.topic == topic},
            described[topic].topic_id if topic in described else "",
            paused.get(topic),
            forms_of(record.form for tp, record in log.positions.items() if tp.topic == topic),
        )
        for topic, who in copied_by.items()
        if topic not in left_out
    }


def _copied_by(
    pipeline: Pipeline,
    target: Cluster,
    topics: Collection[str],
    partitions: Collection[TopicPartition],
    lives: Callable[[str], bool],
) -> tuple[dict[str, str], Mapping[str, Pause]]:
    owners, paused = _living_owners(pipeline, target, topics, lives)
    owned = {
        topic: {owners.get(tp) for tp in partitions if tp.topic == topic} for topic in {tp.topic for tp in partitions}
    }
    copied_by = {
        topic: ", ".join(sorted(who for who in names if who)) for topic, names in owned.items() if None not in names
    }
    return copied_by, paused


def _living_owners(
    pipeline: Pipeline, target: Cluster, topics: Collection[str], lives: Callable[[str], bool]
) -> tuple[dict[TopicPartition, str], Mapping[str, Pause]]:
    """Partitions of some topics that continuous instances copy, with their instance; and the paused topics.

    The instances must be alive for sure.

    An instance that has ended has released its partitions, and is not included.
    """
    with AssignmentTail(pipeline, target) as tail:
        state, liveness = tail.state, Liveness(tail.state, heartbeat_timeout_seconds(pipeline))
        tail.catch_up()
        liveness.note()
        runs = {generation: instance.run for generation, instance in state.instances.items() if instance.run}
        certain = {generation for generation, run in runs.items() if lives(run)}
        patience = Deadline(2 * heartbeat_interval_seconds(pipeline))
        while True:
            claims = [
                claim for claim in state.claims.values() if claim.topic in topics and _is_continuous(state, claim)
            ]
            living = certain | {claim.generation for claim in claims if liveness.has_shown(claim.owner)}
            if living.issuperset(claim.generation for claim in claims) or patience.expired():
                break
            tail.refresh(_POLL_SECONDS)
            liveness.note()
        owners = {
            TopicPartition(claim.topic, claim.partition): state.describe(claim.generation)
            for claim in claims
            if claim.generation in living
        }
        return owners, dict(state.paused)


def _is_continuous(state: Assignments, claim: Claim) -> bool:
    instance = state.instances.get(claim.generation)
    return instance is not None and instance.continuous


def _caught_up(pipeline: Pipeline, source: Cluster, target: Cluster, ends: Mapping[TopicPartition, int]) -> CommitLog:
    """The commit log, when it has reached the given ends, or after a while."""
    patience = Deadline(CATCH_UP_SECONDS)
    cluster = source.cluster_id()
    while True:
        log = read_commit_log(pipeline, cluster, target)
        behind = any(tp not in log.positions or log.positions[tp].position < end for tp, end in ends.items())
        if not behind or patience.expired():
            return log
        time.sleep(_POLL_SECONDS)
