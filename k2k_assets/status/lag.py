"""Lag of partitions, in offsets and in seconds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from k2k_assets.core.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The lag of one partition behind its source.

    Attributes:
        position: Next source offset to copy; None if it is not known where copying will begin.
        end: `Pipeline.readable_end` of the source; None if the source does not answer.
        seconds: For how long the oldest record that is not copied yet waits, by its timestamp, which may be too old;
            0 if there is none, None if it is not known.
    """

    position: int | None
    end: int | None
    seconds: float | None

    @property
    def offsets(self) -> int | None:
        """Source offsets between position and end, which belong to records, markers and the like."""
        return None if self.position is None or self.end is None else max(0, self.end - self.position)


@dataclass(frozen=True, slots=True)
class TotalLag:
    """The lag of several partitions together.

    Attributes:
        offsets: Sum of the known lags in offsets.
        seconds: Lag in seconds of the partition that is farthest behind; None if none is known.
        unknown: Number of partitions whose lag in seconds is not known.
    """

    offsets: int
    seconds: float | None
    unknown: int


def lags(
    positions: Mapping[TopicPartition, int | None],
    ends: Mapping[TopicPartition, int],
    oldest: Mapping[TopicPartition, int | None],
    now: int,
    longest: Mapping[TopicPartition, float | None] | None = None,
) -> dict[TopicPartition, PartitionLag]:
    """Computes the lag of each partition.

    The timestamp of a record may be older than the record: a producer sets it as it likes.

    Args:
        positions: Positions of all wanted partitions; None if it is not known where copying begins.
        ends: Ends of the source partitions, as far as known.
        oldest: Timestamp of the oldest record that is not copied yet, in milliseconds since the epoch; None if only
            markers and the like lie before the end; partitions that could not be read are missing.
        now: Milliseconds since the epoch.
        longest: Seconds that a record of a partition waits at most, as far as known.
    """
    longest = longest or {}
    return {tp: _lag(tp, position, ends.get(tp), oldest, now, longest.get(tp)) for tp, position in positions.items()}


def _lag(
    tp: TopicPartition,
    position: int | None,
    end: int | None,
    oldest: Mapping[TopicPartition, int | None],
    now: int,
    longest: float | None,
) -> PartitionLag:
    if position is None or end is None:
        return PartitionLag(position, end, None)
    if position >= end:
        return PartitionLag(position, end, 0.0)
    if tp not in oldest:
        return PartitionLag(position, end, None)
    timestamp = oldest[tp]
    # Producers on machines whose clocks are ahead give records a time in the future.
    seconds = 0.0 if timestamp is None else max(0, now - timestamp) / 1000
    return PartitionLag(position, end, seconds if longest is None else min(seconds, longest))


def total_lag(partitions: Iterable[PartitionLag]) -> TotalLag:
    """Sums up the lag of several partitions."""
    found = list(partitions)
    told = [lag.seconds for lag in found if lag.seconds is not None]
    return TotalLag(sum(lag.offsets or 0 for lag in found), max(told, default=None), len(found) - len(told))
