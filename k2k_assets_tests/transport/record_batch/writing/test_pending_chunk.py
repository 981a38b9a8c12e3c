"""Where the batches of a chunk went: one stretch where they lie behind each other, else each record's offset."""

from __future__ import annotations

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.chunk import Chunk, Sent
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.interface import Delivery
from k2k_assets.transport.record_batch.writing.pending_chunk import PendingChunk
from k2k_assets_tests.support.memory.fake_records import ListRecords


def _pending(count: int) -> PendingChunk:
    return PendingChunk(Sent(Chunk(TopicPartition("from", 0), ListRecords(list(range(100, 100 + count))), "to", 0)))


def test_batches_behind_each_other_are_one_stretch() -> None:
    pending = _pending(5)
    for partition, indexes, base in ((3, range(2), 70), (3, range(2, 5), 72)):
        pending.piece(partition, indexes).base_offset = base
    assert pending.delivery() == Delivery(pending.sent, 3, 70, 74)


def test_what_comes_between_two_batches_shows_in_the_offsets_of_each_record() -> None:
    pending = _pending(5)
    for indexes, base in ((range(2), 70), (range(2, 5), 75)):
        pending.piece(3, indexes).base_offset = base
    assert pending.delivery() == Delivery(pending.sent, each=[(3, 70), (3, 71), (3, 75), (3, 76), (3, 77)])


def test_records_of_several_partitions_are_each_told() -> None:
    pending = _pending(4)
    for partition, indexes, base in ((0, [1, 2], 10), (1, [0, 3], 50)):
        pending.piece(partition, indexes).base_offset = base
    assert pending.delivery() == Delivery(pending.sent, each=[(1, 50), (0, 10), (0, 11), (1, 51)])


def test_one_partition_whose_records_are_not_in_order_is_no_stretch() -> None:
    pending = _pending(3)
    for indexes, base in (([1, 2], 10), ([0], 12)):
        pending.piece(0, indexes).base_offset = base
    assert pending.delivery().each == [(0, 12), (0, 10), (0, 11)]


def test_nothing_is_told_before_all_is_answered() -> None:
    pending = _pending(2)
    pending.piece(0, range(1)).base_offset = 10
    pending.piece(0, range(1, 2))
    with pytest.raises(Restart, match="not all records"):
        pending.delivery()


def test_nothing_is_told_if_fewer_records_were_sent() -> None:
    pending = _pending(3)
    pending.piece(0, range(2)).base_offset = 10
    with pytest.raises(Restart, match="2 records of from-0 sent of 3"):
        pending.delivery()
