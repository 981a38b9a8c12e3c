"""Reads the clusters for a tick of the replication sensor: ends, positions, discovery; no records of topics."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import wait
from dataclasses import dataclass, field
from functools import partial

from k2k_assets import discovery
from k2k_assets.control.assignment_state import Assignments
from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.control.commit_log import CommitLog, read_commit_log
from k2k_assets.control.commit_record import forms_of
from k2k_assets.control.pause_records import Pause
from k2k_assets.coordination.liveness import Presence, continuous_instances
from k2k_assets.core.bulk import without_cycle_collection
from k2k_assets.core.errors import K2KError
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.discovery import DiscoveredTopic, Discovery
from k2k_assets.kafka.answers import in_thread
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.mapping.index.manifest import read_manifest
from k2k_assets.mapping.index.roots import root_of
from k2k_assets.orchestration.assets.topics.topic_report import out_of_step
from k2k_assets.pipeline import Pipeline

Positions = list[int | None]

# A tick makes about ten calls. Even if each takes its whole time, the tick ends within a minute.
CALL_SECONDS = 5.0
# The commit topic may be long, or an open transaction may block its end.
READ_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Observation:
    """The result for a tick.

    Attributes:
        found: The topics.
        ends: `Pipeline.readable_end` of each partition, by topic; without topics that have no target. Of an offline
            partition it is the position, so that the others are still copied.
        positions: Committed position of each partition, by topic.
        mappings: Position of each partition in the index, by topic; None if the pipeline has no index.
        log: The commit log.
        instances: Continuous instances of the pipeline, by name.
        out_of_step: Partitions whose position does not fit the present source topic, by topic.
        paused: Paused source topics.
        runs: Offset of the last heartbeat of each run that starts to copy, or updates the mappings, by run id.
        topic_ids: Ids of the source topics that can be seen.
        offline: Source partitions whose end nobody tells, because they have no leader.
    """

    found: Discovery
    ends: dict[str, list[int]]
    positions: dict[str, Positions]
    mappings: dict[str, Positions] | None
    log: CommitLog
    instances: dict[str, Presence]
    out_of_step: Mapping[str, Collection[int]] = field(default_factory=dict)
    paused: Mapping[str, Pause] = field(default_factory=dict)
    runs: Mapping[str, int] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    offline: Collection[TopicPartition] = ()

    @property
    def topics(self) -> set[str]:
        """The topics in `ends`, and those that were copied and are not on the source any more, or have no target."""
        return {*self.ends, *(tp.topic for tp in (*self.log.positions, *self.log.stopped))}

    def form_of(self, topic: str) -> str:
        """How the records of a topic are brought, see `forms_of`."""
        names = (TopicPartition(topic, n) for n in range(len(self.ends.get(topic, ()))))
        return forms_of(record.form for tp in names if (record := self.log.positions.get(tp)))


@without_cycle_collection()
def observe(pipeline: Pipeline) -> Observation:
    """Reads both clusters, and updates the discovery state file.

    Raises:
        K2KError: A cluster does not answer, or the commit log cannot be read.
    """
    with both_clusters(pipeline, CALL_SECONDS) as (source, target):
        found, with_groups = discovery.refresh_beside(pipeline, source, target)
        # At the same time as the source's ends, because both are slow with many partitions.
        asked = in_thread(partial(_assignments, pipeline, target))
        try:
            # A topic without a target is left out, because a run with it would be refused.
            routed = {name: topic for name, topic in found.topics.items() if topic.target is not None}
            partitions = [TopicPartition(name, p) for name, topic in routed.items() for p in range(topic.partitions)]
            ends = source.led_offsets(partitions, pipeline.readable_end).offsets
            # After the ends, so that a topic that was created again in between is noticed.
            on_source = source.describe_async(routed, partly=True)
            log = read_commit_log(pipeline, found.source_cluster, target, patience=READ_SECONDS)
            described = on_source()
            others = out_of_step(log, described)
            assignments = asked.result()
        finally:
            found = with_groups()  # saved even if the rest fails
            wait([asked])
    committed = {tp: record.position for tp, record in log.positions.items()}
    return Observation(
        found=found,
        ends={
            name: [ends.get(tp, committed.get(tp, 0)) for tp in (TopicPartition(name, p) for p in range(t.partitions))]
            for name, t in routed.items()
        },
        positions=_by_topic(routed, committed),
        mappings=_by_topic(routed, _indexed(pipeline)) if pipeline.features.offset_mapping else None,
        log=log,
        instances=continuous_instances(assignments, pipeline.name, found.topics),
        out_of_step=others,
        paused=assignments.paused,
        runs=assignments.runs,
        topic_ids={name: topic.topic_id for name, topic in described.items()},
        offline=[tp for tp in partitions if tp not in ends],
    )


def _assignments(pipeline: Pipeline, target: Cluster) -> Assignments:
    if not target.describe([pipeline.coordination.assignment.topic]):
        return Assignments()  # no instance has started yet
    with AssignmentTail(pipeline, target) as tail:
        return tail.catch_up(CALL_SECONDS)


def _indexed(pipeline: Pipeline) -> dict[TopicPartition, int]:
    try:
        manifest = read_manifest(root_of(pipeline))
    except (K2KError, OSError):
        return {}  # the asset reports the fault of the index
    return {TopicPartition(p.topic, p.partition): p.position for p in manifest.positions} if manifest else {}


def _by_topic(topics: Mapping[str, DiscoveredTopic], positions: Mapping[TopicPartition, int]) -> dict[str, Positions]:
    return {
        name: [positions.get(TopicPartition(name, p)) for p in range(topic.partitions)]
        for name, topic in topics.items()
    }
