"""Lag of partitions, in offsets and in seconds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from k2k_assets.core.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far one partition is behind its source.

    Attributes:
        position: Next source offset to copy; None if nobody can tell where copying will begin.
        end: `Pipeline.readable_end` of the source; None if the source does not say.
        seconds: Age of the oldest record that is not copied yet; 0 if there is none, None if it cannot be told.
    """

    position: int | None
    end: int | None
    seconds: float | None

    @property
    def offsets(self) -> int | None:
        """Source offsets between position and end: records, and what takes offsets but is no record."""
        return None if self.position is None or self.end is None else max(0, self.end - self.position)


@dataclass(frozen=True, slots=True)
class TotalLag:
    """Of several partitions.

    Attributes:
        offsets: Sum of what is known.
        seconds: Of the partition that is farthest behind; None if no partition can tell.
        unknown: Partitions that cannot tell their seconds.
    """

    offsets: int
    seconds: float | None
    unknown: int


def lags(
    positions: Mapping[TopicPartition, int | None],
    ends: Mapping[TopicPartition, int],
    oldest: Mapping[TopicPartition, int | None],
    now: int,
) -> dict[TopicPartition, PartitionLag]:
    """The lag of each partition.

    Args:
        positions: Of all partitions that are wanted; None where copying begins is unknown.
        ends: Where the source says.
        oldest: Timestamp of the oldest record that is not copied yet, milliseconds since the epoch; None where no
            record is left before the end, but markers and the like; nothing where it could not be read.
        now: Milliseconds since the epoch.
    """
    return {tp: _lag(tp, position, ends.get(tp), oldest, now) for tp, position in positions.items()}


def _lag(
    tp: TopicPartition, position: int | None, end: int | None, oldest: Mapping[TopicPartition, int | None], now: int
) -> PartitionLag:
    if position is None or end is None:
        return PartitionLag(position, end, None)
    if position >= end:
        return PartitionLag(position, end, 0.0)
    if tp not in oldest:
        return PartitionLag(position, end, None)
    timestamp = oldest[tp]
    # Producers on machines whose clocks are ahead date records into the future.
    return PartitionLag(position, end, 0.0 if timestamp is None else max(0, now - timestamp) / 1000)


def total_lag(partitions: Iterable[PartitionLag]) -> TotalLag:
    """Of several partitions together."""
    found = list(partitions)
    told = [lag.seconds for lag in found if lag.seconds is not None]
    return TotalLag(sum(lag.offsets or 0 for lag in found), max(told, default=None), len(found) - len(told))
