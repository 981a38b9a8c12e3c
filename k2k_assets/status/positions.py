"""The committed position of each source partition, and how far that is behind: a row each. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.stops.reason import render
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.status.lag import PartitionLag


@dataclass(frozen=True, slots=True)
class PositionRow:
    """What the commit log says of one source partition.

    Attributes:
        topic: The source topic.
        partition: The source partition.
        position: Next source offset to copy.
        source_end: Where the source ends; None if it does not say.
        lag: Source offsets between both; None likewise.
        seconds_behind: Age of the oldest record that is not copied yet; None if that cannot be told.
        target_topic: Where the records went.
        target_end: Target offset after the last record copied; None where several partitions are fed, or none yet.
        kind: Of the newest record: start, commit, release or override.
        committed: When, milliseconds since the epoch, UTC.
        owner: Who has written it.
        stop_code: Why the partition is stopped, in one word; empty if it is not.
        stop_reason: In a sentence, likewise.
    """

    topic: str
    partition: int
    position: int
    source_end: int | None
    lag: int | None
    seconds_behind: float | None
    target_topic: str
    target_end: int | None
    kind: str
    committed: int
    owner: str
    stop_code: str
    stop_reason: str


_UNKNOWN = PartitionLag(None, None, None)


def positions_of(
    records: Mapping[TopicPartition, CommitRecord], lags: Mapping[TopicPartition, PartitionLag]
) -> list[PositionRow]:
    """A row for each partition of the commit log, in order.

    Args:
        records: The newest record of each source partition.
        lags: Of these partitions, as far as they are known.
    """
    rows = []
    for tp, record in sorted(records.items()):
        lag = lags.get(tp, _UNKNOWN)
        # The lag was seen at another moment than the record: the record's own position is the one that is shown.
        left = None if lag.end is None else max(0, lag.end - record.position)
        rows.append(
            PositionRow(
                topic=tp.topic,
                partition=tp.partition,
                position=record.position,
                source_end=lag.end,
                lag=left,
                seconds_behind=lag.seconds if left else None if left is None else 0.0,
                target_topic=record.target_topic,
                target_end=record.target_end,
                kind=record.kind,
                committed=record.time,
                owner=f"generation {record.generation}, slot {record.slot}",
                stop_code="" if record.reason is None else record.reason.code,
                stop_reason="" if record.reason is None else render(record.reason),
            )
        )
    return rows
