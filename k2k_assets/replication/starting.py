"""Where to start each partition, and whether the clusters still are what the commit log says they are."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from k2k_assets.errors import Refused
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.replication.commit_log import CommitLog
from k2k_assets.replication.commit_record import CommitRecord
from k2k_assets.replication.partition_state import PartitionState
from k2k_assets.replication.plan import PartitionPlan, SlotPlan
from k2k_assets.topic_partition import TopicPartition


@dataclass(slots=True)
class Starts:
    """Where to start.

    Attributes:
        states: Partitions to copy.
        fresh: Those among them that have no commit record yet: their start has to be committed first.
        stopped: Partitions that cannot be copied, with what was found and what to do.
    """

    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    fresh: list[PartitionState] = field(default_factory=list)
    stopped: dict[TopicPartition, str] = field(default_factory=dict)


def resolve_starts(slot: SlotPlan, leave_out: Collection[TopicPartition], log: CommitLog, source: Cluster) -> Starts:
    """Resolves the position of each partition of a slot from the commit log, and checks it against the source.

    Args:
        slot: The slot.
        leave_out: Partitions that were stopped already.
        log: What the commit topic says.
        source: The source cluster.
    """
    starts = Starts()
    plans = [plan for plan in slot.partitions if plan.source not in leave_out]
    known = source.describe({plan.source.topic for plan in plans})
    alive = []
    for plan in plans:
        reason = log.unreadable.get(plan.source) or _topic_reason(plan, log.positions.get(plan.source), known)
        if reason:
            starts.stopped[plan.source] = reason
        else:
            alive.append(plan)
    earliest = source.offsets([plan.source for plan in alive], "earliest")
    latest = source.offsets([plan.source for plan in alive], "latest")
    for plan in alive:
        record = log.positions.get(plan.source)
        low, high = earliest[plan.source], latest[plan.source]
        if record is None:
            state = _first_state(slot, plan, log, low, high)
            starts.fresh.append(state)
        else:
            reason = _range_reason(record, low, high)
            if reason:
                starts.stopped[plan.source] = reason
                continue
            state = PartitionState.of(plan, record, slot.generation)
        starts.states[plan.source] = state
    return starts


def _topic_reason(plan: PartitionPlan, record: CommitRecord | None, known: dict) -> str | None:
    topic = known.get(plan.source.topic)
    if topic is None:
        return "the source topic is gone. If it was deleted on purpose, take it out of the pipeline"
    if plan.source.partition >= topic.partitions:
        return f"the source topic has only {topic.partitions} partitions left: it was deleted and created anew"
    expected = record.source_topic_id if record else plan.source_topic_id
    if topic.topic_id != expected:
        return (
            f"the source topic was deleted and created anew (topic id {expected} is now {topic.topic_id}), so offsets "
            f"before {record.position if record else 0} mean other records. Copy it under a new group.id"
        )
    if record and record.target_topic == plan.target_topic and record.target_topic_id != plan.target_topic_id:
        return (
            f"the target topic {plan.target_topic} was deleted and created anew (topic id {record.target_topic_id} is "
            f"now {plan.target_topic_id}), so what was copied before {record.position} is gone. Copy it under a new "
            "group.id"
        )
    return None


def _range_reason(record: CommitRecord, low: int, high: int) -> str | None:
    if record.position < low:
        return (
            f"records {record.position} to {low - 1} were deleted from the source before they were copied (retention, "
            f"or delete-records): it now starts at {low}"
        )
    if record.position > high:
        return (
            f"the source ends at {high}, before position {record.position}: its log was truncated, and what was "
            "copied from there on no longer exists on the source"
        )
    return None


def _first_state(slot: SlotPlan, plan: PartitionPlan, log: CommitLog, low: int, high: int) -> PartitionState:
    """A partition without a trace starts where `auto.offset.reset` says, a later one of the topic at its beginning."""
    topic_is_known = any(tp.topic == plan.source.topic for tp in log.positions)
    start_from = "earliest" if topic_is_known else slot.pipeline.start_from
    if start_from == "none":
        raise Refused(
            f"{plan.source} has no committed position and source.kafka.consumer.'auto.offset.reset' is none. "
            "Set it to earliest or latest"
        )
    position = low if start_from == "earliest" else high
    return PartitionState(plan, position, position, None, None)
