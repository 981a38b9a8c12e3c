"""Chunks whose records together would take too much memory decoded: they are decoded in parts."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.record_batch.batches import columns, prefixes
from k2k_assets.transport.record_batch.batches.batch import batch_at
from k2k_assets.transport.record_batch.batches.codecs import AT_ONCE, NONE, ZSTD
from k2k_assets.transport.record_batch.batches.columns import BatchRecords, arrived
from k2k_assets.transport.record_batch.batches.packing_settings import PackingSettings
from k2k_assets.transport.record_batch.batches.rewriting import outgoing_of
from k2k_assets_tests.support.brokers.batches import PackedRecord, pack_batch
from k2k_assets_tests.support.brokers.outgoing import received
from k2k_assets_tests.support.memory.traced import in_a_fork
from k2k_assets_tests.support.suite.properties import examples

T = TopicPartition("t", 0)
MB = 1024 * 1024


def _chunk(*batches: bytes) -> Chunk:
    read = [arrived(batch_at(memoryview(each), 0, len(each)), 0) for each in batches]
    return Chunk(T, BatchRecords(T, [each for each in read if each]), "to", 0)


def _of_one_record(offset: int, size: int, codec: int) -> bytes:
    return pack_batch(offset, [PackedRecord(0, None, bytes(size))], attributes=codec)


@examples(60)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.sampled_from([NONE, ZSTD])), min_size=1, max_size=12),
    st.integers(1, 150),
)
def test_model_each_record_is_in_one_part_and_no_part_is_much_too_large(
    sizes: list[tuple[int, int]], at_once: int
) -> None:
    batches = [_of_one_record(offset, *each) for offset, each in enumerate(sizes)]
    seen: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "AT_ONCE", at_once)
        left: Chunk | None = _chunk(*batches)
        while left:
            part = left.columns()
            assert (left.count, left.first_offset, left.end) == (len(part), len(seen), len(seen) + len(part))
            assert [size for size, _ in sizes[len(seen) :][: len(part)]] == [len(v or b"") for v in part.values()]
            assert sum(len(value or b"") for value in part.values()[:-1]) < at_once
            assert [record.offset for record in received(outgoing_of(left, PackingSettings(MB)))] == part.offsets()
            seen += part.offsets()
            left = Chunk(T, left.rest, "to", 0) if left.rest else None
    assert seen == [*range(len(sizes))]


def test_what_is_not_decoded_takes_no_part_in_a_chunk_that_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "AT_ONCE", 20)
    chunk = _chunk(*(_of_one_record(offset, 6, ZSTD) for offset in range(5)))
    chunk.cut(1, None)
    assert (chunk.count, chunk.rest) == (1, None)


def test_what_is_large_together_is_not_changed_where_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefixes, "AT_ONCE", 10)
    large, alone = _chunk(*(_of_one_record(n, 20, ZSTD) for n in range(2))), _chunk(_of_one_record(0, 20, ZSTD))
    for chunk, is_changed in ((large, False), (alone, True)):
        assert isinstance(chunk.records, BatchRecords)
        assert (chunk.records.with_prefixes(5, {"value": lambda _: b"12345"}) is not None) is is_changed


@pytest.mark.parametrize("looks", ["decodes", "replaces"])
def test_small_batches_of_huge_records_take_the_memory_of_a_few(looks: str) -> None:
    chunk = _chunk(*(_of_one_record(offset, 20 * MB, ZSTD) for offset in range(8)))
    assert isinstance(chunk.records, BatchRecords)
    assert chunk.records.size() < MB
    records = chunk.records

    def check() -> None:
        tracemalloc.start()
        if looks == "decodes":
            chunk.columns()
        else:
            assert records.with_prefixes(5, {"value": lambda start: start}) is None
        assert tracemalloc.get_traced_memory()[1] < 2 * AT_ONCE + 2 * 20 * MB

    in_a_fork(check)
