"""Where to start each partition, and whether the clusters still are what the commit log says they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from k2k_assets.errors import Refused
from k2k_assets.kafka.cluster import Cluster, TopicDescription
from k2k_assets.replication.commit_log import CommitLog
from k2k_assets.replication.commit_record import CommitRecord
from k2k_assets.replication.partition_state import PartitionState
from k2k_assets.replication.plan import PartitionPlan, SlotPlan
from k2k_assets.topic_partition import TopicPartition

_GONE = "the source topic is gone. If it was deleted on purpose, take it out of the pipeline"


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


def resolve_starts(
    slot: SlotPlan, leave_out: Collection[TopicPartition], log: CommitLog, source: Cluster, target: Cluster
) -> Starts:
    """Resolves the position of each partition of a slot from the commit log, and checks it against both clusters.

    Args:
        slot: The slot.
        leave_out: Partitions that were stopped already.
        log: What the commit topic says.
        source: The source cluster.
        target: The target cluster.
    """
    starts = Starts()
    plans = [plan for plan in slot.partitions if plan.source not in leave_out]
    known = source.describe({plan.source.topic for plan in plans})
    there = target.describe({plan.target_topic for plan in plans})
    alive = []
    for plan in plans:
        record = log.positions.get(plan.source)
        reason = (
            log.unreadable.get(plan.source)
            or _source_reason(plan, record, known)
            or _target_reason(plan, record, there)
        )
        if reason:
            starts.stopped[plan.source] = reason
        else:
            alive.append(plan)
    earliest = source.offsets([plan.source for plan in alive], "earliest")
    latest = source.offsets([plan.source for plan in alive], "latest")
    # Where a reader of committed records would start: an open transaction lies behind it.
    stable = source.offsets([plan.source for plan in alive if plan.source not in log.positions], "stable")
    for plan in alive:
        if plan.source not in earliest or plan.source not in latest:
            starts.stopped[plan.source] = _GONE
            continue
        record = log.positions.get(plan.source)
        low, high = earliest[plan.source], latest[plan.source]
        if record is None and log.incomplete and slot.pipeline.features.exactly_once:
            starts.stopped[plan.source] = (
                f"no position is known, and {slot.pipeline.coordination.commit.topic} has lost records to retention, "
                "so it may have been copied already. Give that topic cleanup.policy=compact, and use a new group.id"
            )
            continue
        if record is None:
            state = _first_state(slot, plan, low, stable[plan.source])
            starts.fresh.append(state)
        else:
            reason = _range_reason(record, low, high)
            if reason:
                starts.stopped[plan.source] = reason
                continue
            state = PartitionState.of(plan, record, slot.generation)
        starts.states[plan.source] = state
    return starts


def _source_reason(
    plan: PartitionPlan, record: CommitRecord | None, known: Mapping[str, TopicDescription]
) -> str | None:
    topic = known.get(plan.source.topic)
    if topic is None:
        return _GONE
    if plan.source.partition >= topic.partitions:
        return f"the source topic has only {topic.partitions} partitions left: it was deleted and created anew"
    expected = record.source_topic_id if record else plan.source_topic_id
    if topic.topic_id != expected:
        return (
            f"the source topic was deleted and created anew (topic id {expected} is now {topic.topic_id}), so offsets "
            f"before {record.position if record else 0} mean other records. Copy it under a new group.id"
        )
    return None


def _target_reason(
    plan: PartitionPlan, record: CommitRecord | None, there: Mapping[str, TopicDescription]
) -> str | None:
    topic = there.get(plan.target_topic)
    if topic is None:
        return f"the target topic {plan.target_topic} was deleted. Copy {plan.source.topic} under a new group.id"
    same_name = record is not None and record.target_topic == plan.target_topic
    expected = record.target_topic_id if record and same_name else plan.target_topic_id
    if topic.topic_id != expected:
        return (
            f"the target topic {plan.target_topic} was deleted and created anew (topic id {expected} is now "
            f"{topic.topic_id}), so what was copied before {record.position if record else 0} is gone. Copy "
            f"{plan.source.topic} under a new group.id"
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


def _first_state(slot: SlotPlan, plan: PartitionPlan, low: int, stable: int) -> PartitionState:
    """A partition without a trace starts where `auto.offset.reset` says, a later one of the topic at its beginning."""
    start_from = "earliest" if plan.source.topic in slot.known_topics else slot.pipeline.start_from
    if start_from == "none":
        raise Refused(
            f"{plan.source} has no committed position and source.kafka.consumer.'auto.offset.reset' is none. "
            "Set it to earliest or latest"
        )
    position = low if start_from == "earliest" else stable
    return PartitionState(plan, position, position, None, None, position)
