"""What an answer tells of a partition beside its records."""

from __future__ import annotations

import pytest

from k2k_assets.core.stops.reasons.source_log import SourceDiverged
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.errors import Restart, SourceStopped
from k2k_assets.transport.interface import Position
from k2k_assets.transport.record_batch.errors import NotByBatches
from k2k_assets.transport.record_batch.reading.answers import take
from k2k_assets.transport.record_batch.reading.partitions import ReadPartition
from k2k_assets.transport.record_batch.wire.fetch_messages import EpochEnd, FetchedPartition
from k2k_assets_tests.support.brokers.batches import PackedRecord, pack_batch


def _answer(base: int, count: int, stable: int) -> FetchedPartition:
    records = pack_batch(base, [PackedRecord(n) for n in range(count)]) if count else b""
    return FetchedPartition("t", 0, 0, 99, stable, [], None, memoryview(records))


def test_more_is_known_until_all_that_is_committed_was_read() -> None:
    partition = ReadPartition(TopicPartition("t", 0), 0, -1, leader=1)
    assert not partition.has_more
    size = take(partition, _answer(0, 3, stable=7))
    assert (size.records, partition.has_more) == (3, True)
    take(partition, _answer(3, 4, stable=7))
    assert not partition.has_more
    take(partition, _answer(7, 0, stable=8))
    assert partition.has_more
    partition.seek_leader()
    assert not partition.has_more, "nobody is asked for it"


def test_an_error_that_is_not_known_here_is_told_in_words() -> None:
    """As librdkafka tells it: a number says nothing to who reads the log."""
    partition = ReadPartition(TopicPartition("orders", 3), 17, -1, leader=1)
    refused = FetchedPartition("orders", 3, 35, 99, 99, [], None, memoryview(b""))
    with pytest.raises(Restart) as told:
        take(partition, refused)
    assert str(told.value) == (
        "source: orders-3: the broker answers a fetch from 17: Broker: API version not supported (UNSUPPORTED_VERSION)"
    )


def _diverging(position: int, epoch: int, log: EpochEnd) -> ReadPartition:
    partition = ReadPartition(TopicPartition("t", 0), position, epoch, leader=1)
    take(partition, FetchedPartition("t", 0, 0, 240, 240, [], log, memoryview(b"")))
    return partition


def test_a_log_that_ends_below_the_position_was_cut_off() -> None:
    """Also where its newest epoch there is an earlier one: the one that was asked for was lost with its records."""
    for log in (EpochEnd(7, 40), EpochEnd(3, 99)):
        partition = _diverging(100, 7, log)
        (stopped,) = partition.queue
        assert isinstance(stopped, SourceStopped)
        assert stopped.reason == SourceDiverged(TopicPartition("t", 0), 100, log.end)
        assert partition.is_stopped


@pytest.mark.parametrize("end", [100, 180])
def test_an_epoch_in_which_nothing_was_written_is_forgotten_and_no_cut(end: int) -> None:
    """A leader drops the epochs that begin at its log end; the position keeps being checked, by the one before."""
    partition = _diverging(100, 7, EpochEnd(3, end))
    assert list(partition.queue) == [Position(100, 3)]
    assert not partition.is_stopped
    asked = partition.wanted()
    assert (asked.offset, asked.last_epoch) == (100, 3)
    take(partition, FetchedPartition("t", 0, 0, 240, 240, [], EpochEnd(3, 40), memoryview(b"")))
    assert partition.is_stopped, "cut off since"


def test_an_answer_that_contradicts_itself_is_not_asked_for_again_and_again() -> None:
    for log in (EpochEnd(7, 100), EpochEnd(8, 180)):
        partition = _diverging(100, 7, log)
        (fault,) = partition.queue
        assert isinstance(fault, NotByBatches)
        assert partition.is_stopped
        assert f"under leader epoch 7, the leader says that epoch {log.epoch} ends at {log.end}" in str(fault)
