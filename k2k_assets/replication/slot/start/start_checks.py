"""Resolves where each partition starts, and checks the positions of the commit log against both clusters.

A truncated, recreated or shrunk topic is found here at the start of a session. While the slot copies,
`transport/librdkafka/source_faults.py` finds truncations, and `topic_identity.py` recreated topics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from k2k_assets.control.commit_log import CommitLog
from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.errors import Refused, Superseded
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.stops.reasons.positions import PositionsLost
from k2k_assets.core.stops.reasons.source_log import RecordsDeleted, SourceTruncated, StartOutsideLog
from k2k_assets.core.stops.reasons.source_topic import FewerPartitions, SourceDeleted, SourceRecreated
from k2k_assets.core.stops.reasons.target_log import TargetTruncated
from k2k_assets.core.stops.reasons.target_topic import TargetDeleted, TargetRecreated
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster, TopicDescription
from k2k_assets.kafka.leaders import ELECTION_SECONDS, END_UNKNOWN
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.extent import UntilCaughtUp
from k2k_assets.replication.plan import PartitionPlan, SlotPlan
from k2k_assets.replication.slot.commit.partition_state import PartitionState
from k2k_assets.replication.slot.commit.topic_identity import ask_topics
from k2k_assets.replication.slot.start.given_starts import given_starts
from k2k_assets.replication.slot.start.offline_partitions import without_leader
from k2k_assets.replication.slot.start.truncated_targets import truncated_targets


@dataclass(slots=True)
class Starts:
    """The result of the start checks.

    Attributes:
        states: Partitions to copy.
        fresh: States without a commit record; their start positions have to be committed first.
        stopped: Partitions that cannot be copied, with the reason.
        offline_partitions: Partitions that cannot be copied now because they or their target have no leader, with the
            error. Partitions that a run with an end has copied completely are left out.
    """

    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    fresh: list[PartitionState] = field(default_factory=list)
    stopped: dict[TopicPartition, StopReason] = field(default_factory=dict)
    offline_partitions: dict[TopicPartition, str] = field(default_factory=dict)

    def stop(self, reasons: Mapping[TopicPartition, StopReason]) -> None:
        """Moves partitions from those to copy to the stopped ones."""
        self.stopped.update(reasons)
        self.states = {tp: state for tp, state in self.states.items() if tp not in reasons}
        self.fresh = [state for state in self.fresh if state.plan.source not in reasons]


def resolve_starts(
    slot: SlotPlan,
    leave_out: Collection[TopicPartition],
    log: CommitLog,
    source: Cluster,
    target: Cluster,
    marked_always: bool = False,
) -> Starts:
    """Resolves the position of each partition of a slot from the commit log, and checks it against both clusters.

    Args:
        slot: The slot.
        leave_out: Partitions that are stopped already, or that others copy.
        log: The commit log.
        source: The source cluster.
        target: The target cluster.
        marked_always: As in `PartitionState.of`.
    """
    starts = Starts()
    plans = [plan for plan in slot.partitions if plan.source not in leave_out]
    known, there = ask_topics(slot, source, target, plans)()
    copied, ids = _partitions_copied(log), _topic_ids_copied(log)
    alive = []
    for plan in plans:
        record = log.positions.get(plan.source)
        reason = (
            log.unreadable_reason(plan.source)
            or _lost_copies(plan, record, there)
            or _source_reason(plan, record, known, copied)
            or _target_reason(plan, record, there)
            or (_former_reason(plan, ids, known) if record is None else None)
        )
        if reason:
            starts.stopped[plan.source] = reason
        else:
            alive.append(plan)
    starts.offline_partitions = without_leader(slot.pipeline, alive, target, there)
    alive = [plan for plan in alive if plan.source not in starts.offline_partitions]
    starts.stopped |= truncated_targets(slot, alive, log, target)
    alive = [plan for plan in alive if plan.source not in starts.stopped]
    sources = [plan.source for plan in alive]
    earliest, offline = source.led_offsets(sources, "earliest", ELECTION_SECONDS)
    starts.offline_partitions |= offline
    alive = [plan for plan in alive if plan.source not in starts.offline_partitions]
    latest = source.offsets([plan.source for plan in alive], "latest")
    given, offline = given_starts(slot.pipeline, [plan for plan in alive if plan.source not in log.positions], source)
    starts.offline_partitions |= offline
    alive = [plan for plan in alive if plan.source not in starts.offline_partitions]
    for plan in _with_ends(slot.pipeline, alive, source):
        if plan.source not in earliest or plan.source not in latest:
            starts.stopped[plan.source] = SourceDeleted(plan.source.topic)
            continue
        record = log.positions.get(plan.source)
        low, high = earliest[plan.source], latest[plan.source]
        if record is None and log.incomplete and slot.pipeline.features.exactly_once:
            commit_topic = slot.pipeline.coordination.commit.topic
            starts.stopped[plan.source] = PositionsLost(plan.source, commit_topic)
            continue
        state = (
            PartitionState.of(slot, plan, record, marked_always)
            if record
            else _first_state(slot, plan, low, given.get(plan.source), log.tells_all)
        )
        if not log.is_newest or (record is None and log.incomplete):
            state.forward_since = slot.generation + 1  # an earlier session of this one may have copied farther
        reason = _range_reason(state, low, high)
        if reason and record is None and plan.source in given:
            reason = StartOutsideLog(plan.source, given[plan.source], low, high)
        if reason:
            starts.stopped[plan.source] = reason
            continue
        if state.reading_from.offset < low:
            state.leader_epoch = None  # with the epoch, reading would begin at markers that are deleted by now
        starts.states[plan.source] = state
        if record is None:
            starts.fresh.append(state)
    _note_epochs([state for state in starts.states.values() if state.leader_epoch is None], source)
    if isinstance(slot.extent, UntilCaughtUp):
        done = {plan.source for plan in plans if _is_done(plan, log.positions.get(plan.source))}
        starts.offline_partitions = {tp: reason for tp, reason in starts.offline_partitions.items() if tp not in done}
    return starts


def _is_done(plan: PartitionPlan, record: CommitRecord | None) -> bool:
    """Whether the partition is copied up to its end at the time of planning, so that it needs no leader."""
    return record is not None and plan.readable_end != END_UNKNOWN and record.position >= plan.readable_end


def _with_ends(pipeline: Pipeline, plans: Sequence[PartitionPlan], source: Cluster) -> list[PartitionPlan]:
    """Sets the present end for partitions that had no leader when the run was planned, and have one now."""
    ends = source.offsets([plan.source for plan in plans if plan.readable_end == END_UNKNOWN], pipeline.readable_end)
    return [replace(plan, readable_end=ends[plan.source]) if plan.source in ends else plan for plan in plans]


def _note_epochs(states: Collection[PartitionState], source: Cluster) -> None:
    """Sets the log's newest leader epoch for partitions without a copied record.

    It is valid at their position, though no record need have been written in it (`PartitionState.know_epoch`).
    """
    epochs = source.leader_epochs([state.plan.source for state in states])
    for state in states:
        state.leader_epoch, state.epoch_end = epochs.get(state.plan.source), state.committed


def _partitions_copied(log: CommitLog) -> dict[str, int]:
    """Number of partitions of each topic that have a position."""
    return dict(Counter(tp.topic for tp in log.positions))


def _source_reason(
    plan: PartitionPlan,
    record: CommitRecord | None,
    known: Mapping[str, TopicDescription],
    copied: Mapping[str, int],
) -> StopReason | None:
    topic = known.get(plan.source.topic)
    if topic is None:
        return SourceDeleted(plan.source.topic)
    if plan.source.partition >= topic.partitions:
        return FewerPartitions(plan.source.topic, topic.partitions)
    expected = record.source_topic_id if record else plan.source_topic_id
    _ensure_planned_with(topic, plan.source_topic_id, expected)
    if topic.topic_id != expected and copied.get(plan.source.topic, 0) > topic.partitions:
        return FewerPartitions(plan.source.topic, topic.partitions)
    if topic.topic_id != expected:
        position = record.position if record else 0
        return SourceRecreated(plan.source.topic, expected, topic.topic_id, position)
    return None


def _target_reason(
    plan: PartitionPlan, record: CommitRecord | None, there: Mapping[str, TopicDescription]
) -> StopReason | None:
    topic, position = there.get(plan.target_topic), record.position if record else 0
    if topic is None:
        return TargetDeleted(plan.source.topic, plan.target_topic, position)
    same_name = record is not None and record.target_topic == plan.target_topic
    expected = record.target_topic_id if record and same_name else plan.target_topic_id
    _ensure_planned_with(topic, plan.target_topic_id, expected)
    if topic.topic_id != expected:
        return TargetRecreated(plan.source.topic, plan.target_topic, expected, topic.topic_id, position)
    return None


def _lost_copies(
    plan: PartitionPlan, record: CommitRecord | None, there: Mapping[str, TopicDescription]
) -> StopReason | None:
    """The stop of a partition whose copies are lost, until somebody says where it goes on.

    The target does not show it any more once it is as long as it was, be it by an attempt that was aborted. So no other
    stop takes its place, but that of another target topic.
    """
    if record is None or record.target_topic != plan.target_topic:
        return None
    topic = there.get(plan.target_topic)
    if topic is not None and topic.topic_id != record.target_topic_id:
        return None
    return record.reason if isinstance(record.reason, TargetTruncated) else None


def _topic_ids_copied(log: CommitLog) -> dict[str, list[str]]:
    """The source topic ids in the positions of each topic."""
    ids: dict[str, dict[str, None]] = {}
    for tp, record in log.positions.items():
        ids.setdefault(tp.topic, {})[record.source_topic_id] = None
    return {topic: list(of_topic) for topic, of_topic in ids.items()}


def _former_reason(
    plan: PartitionPlan, ids: Mapping[str, list[str]], known: Mapping[str, TopicDescription]
) -> StopReason | None:
    """The stop reason of a partition without a position if all positions of its topic belong to a former topic.

    The former topic had fewer partitions than the present one.
    """
    topic, sources = known[plan.source.topic], ids.get(plan.source.topic)
    if sources and topic.topic_id not in sources:
        return SourceRecreated(topic.name, sources[0], topic.topic_id)
    return None


def _ensure_planned_with(topic: TopicDescription, planned: str, expected: str) -> None:
    """Refuses a plan from before an override accepted a topic that was created anew.

    Raises:
        Superseded: The plan has the id of the former topic.
    """
    if topic.topic_id == expected != planned:
        raise Superseded(
            f"the topic {topic.name} was created anew, and accepted by k2k-tool, since this run was planned"
        )


def _range_reason(state: PartitionState, low: int, high: int) -> StopReason | None:
    if state.committed < low:
        return RecordsDeleted(state.plan.source, state.committed, low)
    if state.committed > high:
        return SourceTruncated(state.plan.source, state.committed, high)
    return None


def _first_state(
    slot: SlotPlan, plan: PartitionPlan, low: int, given: int | None, all_is_known: bool
) -> PartitionState:
    """The state of a partition without a commit record: it starts where file or plan say, else at its beginning.

    A partition that would start at its present end, or at a time, starts at its beginning if it may have a position
    that was not read, because any part of it may have been copied. So does one that was added to the topic since.
    """
    if slot.pipeline.start_from(plan.source.topic) == "none" and plan.source.topic not in slot.known_topics:
        raise Refused(
            f"{plan.source} has no committed position and source.kafka.consumer.'auto.offset.reset' is none. "
            "Set it to earliest or latest"
        )
    is_dated = slot.pipeline.start_time_of(plan.source.topic) is not None
    if given is not None and (all_is_known or not is_dated):
        return PartitionState(plan, given, given, None, None, given, log_start=low)
    position = low if plan.begins_at is None else plan.begins_at
    if position == END_UNKNOWN:
        position = plan.readable_end if all_is_known else low
    if is_dated:
        position = max(position, low)  # retention may have passed what was noted: what is left is what was asked for
    return PartitionState(plan, position, position, None, None, position, log_start=low)
