"""Assigns partitions to slots. Pure: the same input gives the same plan everywhere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from k2k_assets.control.partitions import stable_hash
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.extent import Extent


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """One source partition to copy.

    Attributes:
        source: Source partition.
        source_topic_id: Source topic id when the plan was made.
        target_topic: Target topic.
        target_topic_id: Target topic id when the plan was made.
        readable_end: `Pipeline.readable_end` on the source when the plan was made; `leaders.END_UNKNOWN` without a
            leader.
        begins_at: Start position if it has no position; None: its log start.
    """

    source: TopicPartition
    source_topic_id: str
    target_topic: str
    target_topic_id: str
    readable_end: int
    begins_at: int | None = None


@dataclass(frozen=True, slots=True)
class ControlPartitions:
    """The partition counts of the control topics, and the commit topic's id.

    Attributes:
        commit: Number of partitions of the commit topic.
        mapping: Number of partitions of the mapping topic; 0 without offset mapping.
        commit_topic_id: Id of the commit topic; if it changes, the positions were lost.
    """

    commit: int
    mapping: int
    commit_topic_id: str


@dataclass(frozen=True, slots=True)
class ReportAddress:
    """Where slots report what control topics do not tell.

    Attributes:
        host: Host of the driver, as workers reach it.
        port: Port there.
        token: Shows that a report comes from a slot.
        statistics_ms: Milliseconds between two statistics of a client; 0: none.
        logs: Whether slots report their log lines too.
    """

    host: str
    port: int
    token: str = field(repr=False)
    statistics_ms: int = 0
    logs: bool = False


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """The input of a copy task, which reads everything else from the clusters.

    Attributes:
        pipeline: The pipeline.
        cluster: Source cluster id.
        generation: Generation of the instance.
        slot: Number of the slot.
        slots: Number of slots of the instance.
        partitions: The partitions of the slot.
        extent: When the slot ends.
        control: The control topics.
        one_to_one: Whether one source partition feeds each target partition, and nobody else writes there.
        batch_bytes: Largest batch that every target topic accepts.
        known_topics: Source topics that had commit records when the plan was made, or appeared while the instance ran.
            Their partitions without a commit record start at their beginning.
        dead: Slots, by generation and number, whose partitions are taken over without waiting: slots of earlier
            generations of this instance, and slots of others without a heartbeat for `graceWindow`.
        settings: Fingerprint of the copy settings (`control/copy_settings.py`).
        sharing: How many source partitions of the pipeline share each limit of `throttle` (`Throttle.sharing`); empty
            without limits.
        target_cluster: Target cluster id.
        reports: Where the slot reports to; None: nowhere.
        instance: Host and process id of the instance, for people.
    """

    pipeline: Pipeline
    cluster: str
    generation: int
    slot: int
    slots: int
    partitions: tuple[PartitionPlan, ...]
    extent: Extent
    control: ControlPartitions
    one_to_one: bool
    batch_bytes: int
    known_topics: frozenset[str] = frozenset()
    dead: frozenset[tuple[int, int]] = frozenset()
    settings: str | None = None
    sharing: tuple[int, ...] = ()
    target_cluster: str = ""
    reports: ReportAddress | None = None
    instance: str = ""


def slot_of(tp: TopicPartition, slots: int) -> int:
    """The slot number of a partition. Partitions of one topic go to slots in turn: each slot gets a share of it."""
    return (stable_hash(tp.topic.encode()) + tp.partition) % slots


def slots_for(pipeline: Pipeline, partitions: int, free_cores: int) -> int:
    """Number of slots: the configured number, else the free cores; never more than free cores, or partitions."""
    wanted = pipeline.slots or free_cores
    return max(1, min(wanted, free_cores, partitions))


def is_one_to_one(pipeline: Pipeline, topics: Iterable[str]) -> bool:
    """Whether one source partition, and nobody else, feeds each target partition.

    Topics without a target topic do not count.
    """
    if pipeline.shares_targets:
        return False
    targets = [target for topic in topics if (target := pipeline.routing.target_if_any(topic)) is not None]
    return pipeline.routing.keeps_partitions and len(set(targets)) == len(targets)


def spread(partitions: Iterable[TopicPartition], slots: int) -> list[tuple[TopicPartition, ...]]:
    """The partitions of each slot. Slots without partitions are left out: peers would wait for their claims."""
    shares: list[list[TopicPartition]] = [[] for _ in range(slots)]
    for tp in partitions:
        shares[slot_of(tp, slots)].append(tp)
    return [tuple(share) for share in shares if share]
