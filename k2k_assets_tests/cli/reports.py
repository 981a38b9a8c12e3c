"""Fake progress reports and outcomes in the engine's form."""

from __future__ import annotations

from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.driver.progress import PartitionProgress, Progress


def progress_of(started: float = 0.0, **topics: list[PartitionProgress]) -> Progress:
    """A report of topics, each with its partitions from 0 on."""
    partitions = {
        TopicPartition(topic, number): state for topic, states in topics.items() for number, state in enumerate(states)
    }
    return Progress(partitions=partitions, started=started)


def partition(
    position: int, end: int, records: int = 0, held_since: float | None = None, stopped: StopReason | None = None
) -> PartitionProgress:
    """A partition's state."""
    return PartitionProgress(
        position=position, readable_end=end, high_watermark=end, records=records, bytes=records * 100, runs=1,
        held_since=held_since, stopped=stopped,
    )  # fmt: skip
