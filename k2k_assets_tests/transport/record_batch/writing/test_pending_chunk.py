"""Where the batches of a chunk went: one stretch where they lie behind each other, else each record's offset."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.chunk import Chunk, Sent
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.interface import Delivery
from k2k_assets.transport.record_batch.batches.packing import packed
from k2k_assets.transport.record_batch.writing.pending_chunk import PendingChunk
from k2k_assets_tests.support.memory.fake_records import ListRecords


def _pending(count: int) -> PendingChunk:
    return PendingChunk(Sent(Chunk(TopicPartition("from", 0), ListRecords(list(range(100, 100 + count))), "to", 0)))


def _answer(pending: PendingChunk, partition: int, indexes: Sequence[int], *answers: tuple[int, int]) -> None:
    """Queues batches of so many records, which lie at those offsets."""
    batches = [packed([(None, b"", (), 0)] * count) for count, _ in answers]
    for queued, (_, base) in zip(pending.queued(partition, indexes, batches), answers, strict=True):
        assert queued.part is not None
        queued.part.bases[queued.number] = base


def test_batches_behind_each_other_are_one_stretch() -> None:
    pending = _pending(5)
    _answer(pending, 3, range(5), (2, 70), (3, 72))
    assert pending.batches == 2
    assert pending.delivery() == Delivery(pending.sent, 3, 70, 74)


def test_what_comes_between_two_batches_shows_in_the_offsets_of_each_record() -> None:
    pending = _pending(5)
    _answer(pending, 3, range(5), (2, 70), (3, 75))
    assert pending.delivery() == Delivery(pending.sent, each=[(3, 70), (3, 71), (3, 75), (3, 76), (3, 77)])


def test_records_of_several_partitions_are_each_told() -> None:
    pending = _pending(4)
    _answer(pending, 0, [1, 2], (2, 10))
    _answer(pending, 1, [0, 3], (1, 50), (1, 51))
    assert pending.batches == 3
    assert pending.delivery() == Delivery(pending.sent, each=[(1, 50), (0, 10), (0, 11), (1, 51)])


def test_one_partition_that_a_producer_chose_for_all_is_one_stretch() -> None:
    pending = _pending(3)
    _answer(pending, 2, [0, 1, 2], (3, 10))
    assert pending.delivery() == Delivery(pending.sent, 2, 10, 12)


def test_one_partition_whose_records_are_not_in_order_is_no_stretch() -> None:
    pending = _pending(3)
    _answer(pending, 0, [1, 2], (2, 10))
    _answer(pending, 0, [0], (1, 12))
    assert pending.delivery().each == [(0, 12), (0, 10), (0, 11)]


def test_nothing_is_told_before_all_is_answered() -> None:
    pending = _pending(2)
    _answer(pending, 0, range(2), (1, 10), (1, -1))
    with pytest.raises(Restart, match="not all records"):
        pending.delivery()


def test_nothing_is_told_if_fewer_records_were_sent() -> None:
    pending = _pending(3)
    _answer(pending, 0, range(3), (2, 10))
    with pytest.raises(Restart, match="2 records of from-0 sent of 3"):
        pending.delivery()


def test_a_record_is_found_by_its_batch_and_its_place_there() -> None:
    batches = [packed([(None, b"", (), 0)] * count) for count in (2, 1, 3)]
    _, _, queued = _pending(9).queued(0, [1, 2, 4, 5, 7, 8], batches)
    assert queued.part is not None
    assert [queued.part.index_of(queued.number, record) for record in range(3)] == [5, 7, 8]
