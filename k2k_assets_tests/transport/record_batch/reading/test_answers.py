"""What an answer tells of a partition beside its records."""

from __future__ import annotations

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.record_batch.reading.answers import take
from k2k_assets.transport.record_batch.reading.partitions import ReadPartition
from k2k_assets.transport.record_batch.wire.fetch_messages import FetchedPartition
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
