"""Rows with the committed position and the lag of each source partition. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.stops.reason import render
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.status.lag import PartitionLag


@dataclass(frozen=True, slots=True)
class PositionRow:
    """The committed position of one source partition.

    Attributes:
        topic: The source topic.
        partition: The source partition.
        position: Next source offset to copy.
        source_end: `Pipeline.readable_end` of the source; None if the source does not answer.
        lag: Source offsets between `position` and `source_end`; None if the end is not known.
        seconds_behind: Age of the oldest record that is not copied yet; None if it is not known.
        target_topic: Target topic.
        target_end: Target offset after the last record copied; None where several partitions are fed, or none yet.
        kind: Kind of the newest commit record: start, commit, release or override.
        committed: Time of that record, milliseconds since the epoch, UTC.
        owner: Text that names the writer of that record.
        stop_code: Code of the stop reason; empty if the partition is not stopped.
        stop_reason: Text of the stop reason; empty if the partition is not stopped.
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
    """Makes a row for each partition of the commit log, in order.

    Args:
        records: Newest commit record of each source partition.
        lags: Lags of these partitions, as far as known.
    """
    rows = []
    for tp, record in sorted(records.items()):
        lag = lags.get(tp, _UNKNOWN)
        # Lag and record were read at different moments; the position comes from the record.
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
