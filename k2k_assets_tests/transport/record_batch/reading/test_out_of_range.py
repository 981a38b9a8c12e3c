"""Positions that the source's log does not have any more: a loud stop, but for markers that were read before."""

from __future__ import annotations

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.stops.reasons.source_log import OffsetOutOfRange, RecordsDeleted, SourceTruncated
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.errors import SourceStopped
from k2k_assets.transport.interface import Position
from k2k_assets.transport.record_batch.reading.answers import take_out_of_range
from k2k_assets.transport.record_batch.reading.partitions import ReadPartition
from k2k_assets.transport.record_batch.reading.source import BatchSource
from k2k_assets_tests.support.brokers.batches import PackedRecord, pack_batch
from k2k_assets_tests.support.brokers.hostile_broker import TOPIC, HostileBroker
from k2k_assets_tests.support.brokers.kafka import SECONDS

TP = TopicPartition(TOPIC, 0)
LATER = [(pack_batch(105, [PackedRecord(n) for n in range(3)]), 108)]


@pytest.mark.parametrize("log", [[], LATER])
def test_markers_before_the_position_that_are_deleted_by_now_stop_nothing(log: list[tuple[bytes, int]]) -> None:
    """A quiet topic whose last record was 99; 100 to 104 are markers, and are read once more for the leader epoch."""
    found: list[int] = []

    def end() -> int | None:
        polled = source.poll(1000, 0.05)
        found.extend(offset for chunk in polled.chunks for offset in chunk.records.offsets())
        return polled.ends.get(TP)

    with HostileBroker(log, log_start=105) as broker:
        source = BatchSource({"bootstrap.servers": broker.servers, "fetch.wait.max.ms": 10})
        source.assign({TP: Position(100, 3, 105)})
        assert wait_until(end, SECONDS, "the end", interval=0) == (108 if log else 105)
        source.close()
    assert found == ([105, 106, 107] if log else [])


def _reason(position: int, resume: int, log: tuple[int, int] | None) -> StopReason | None:
    partition = ReadPartition(TP, position, 3, leader=1, resume=resume)
    take_out_of_range(partition, log)
    if not partition.is_stopped:
        asked = partition.wanted()
        assert (asked.offset, asked.last_epoch) == (resume, -1), "that epoch holds right behind the last record only"
        return None
    (stopped,) = partition.queue
    assert isinstance(stopped, SourceStopped)
    return stopped.reason


@pytest.mark.parametrize("log_start", [101, 105])
def test_as_many_markers_may_be_deleted_as_there_are(log_start: int) -> None:
    assert _reason(100, 105, (log_start, 105)) is None


@pytest.mark.parametrize(("position", "resume"), [(100, -1), (100, 105), (105, 105)])
def test_that_records_are_deleted_too_is_told(position: int, resume: int) -> None:
    assert _reason(position, resume, (106, 110)) == RecordsDeleted(TP, position, 106)


def test_a_log_that_ends_before_the_markers_is_told() -> None:
    assert _reason(100, 105, (40, 90)) == SourceTruncated(TP, 100, 90)


def test_what_the_broker_does_not_explain_is_told() -> None:
    assert isinstance(_reason(100, 105, None), OffsetOutOfRange)
