"""Which slot copies which partition. Pure: the same input gives the same plan everywhere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from k2k_assets.control.partitions import stable_hash
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.extent import Extent


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """One source partition to copy.

    Attributes:
        source: Which.
        source_topic_id: The topic's id when the plan was made.
        target_topic: Where it goes.
        target_topic_id: That topic's id.
        readable_end: `Pipeline.readable_end` on the source when the plan was made; `leaders.END_UNKNOWN` without a
            leader.
        begins_at: Where it starts if it has no position; None: where its log starts.
    """

    source: TopicPartition
    source_topic_id: str
    target_topic: str
    target_topic_id: str
    readable_end: int
    begins_at: int | None = None


@dataclass(frozen=True, slots=True)
class ControlPartitions:
    """What is to be known of the control topics.

    Attributes:
        commit: Partitions of the commit topic.
        mapping: Partitions of the mapping topic; 0 without offset mapping.
        commit_topic_id: Of the commit topic: another one means that the positions were lost.
    """

    commit: int
    mapping: int
    commit_topic_id: str


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """All that a copy task is told; everything else it reads from the clusters.

    Attributes:
        pipeline: The pipeline.
        cluster: Source cluster id.
        generation: Of the instance.
        slot: Which slot.
        slots: How many the instance has.
        partitions: Its partitions.
        extent: When to end.
        control: The control topics.
        one_to_one: Whether each target partition is fed by one source partition only.
        batch_bytes: Largest batch that every target topic takes.
        known_topics: Source topics that had commit records when the plan was made, or appeared while the instance ran:
            a partition of theirs without one starts at its beginning.
        dead: Slots, by generation and number, whose partitions are taken over without waiting: of earlier generations
            of this instance, and of others that have written no heartbeat for `graceWindow`.
        settings: Fingerprint of the settings that decide what a copy looks like.
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


def slot_of(tp: TopicPartition, slots: int) -> int:
    """The share of a partition: those of one topic in turn, so that each slot gets its share of each topic."""
    return (stable_hash(tp.topic.encode()) + tp.partition) % slots


def slots_for(pipeline: Pipeline, partitions: int, free_cores: int) -> int:
    """How many slots to use: what is configured, else the free cores; never more than there are partitions."""
    wanted = pipeline.configuration.partition_parallelism or free_cores
    return max(1, min(wanted, partitions))


def is_one_to_one(pipeline: Pipeline, topics: Iterable[str]) -> bool:
    """Whether each target partition is fed by one source partition only; topics that have no target feed none."""
    targets = [target for topic in topics if (target := pipeline.routing.target_if_any(topic)) is not None]
    return pipeline.routing.partition == "source" and len(set(targets)) == len(targets)


def spread(partitions: Iterable[TopicPartition], slots: int) -> list[tuple[TopicPartition, ...]]:
    """The partitions of each slot; those that would have none are left out: others would wait for what they claim."""
    shares: list[list[TopicPartition]] = [[] for _ in range(slots)]
    for tp in partitions:
        shares[slot_of(tp, slots)].append(tp)
    return [tuple(share) for share in shares if share]
