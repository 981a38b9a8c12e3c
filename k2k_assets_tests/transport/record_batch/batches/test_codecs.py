"""Decompression: every codec, damaged content, and content that wants to become too large."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.transport.record_batch.batches.codecs import GZIP, LZ4, SNAPPY, ZSTD, decompressed
from k2k_assets.transport.record_batch.errors import Unreadable
from k2k_assets_tests.support.brokers.batches import PACK, xerial_snappy
from k2k_assets_tests.support.memory.traced import in_a_fork
from k2k_assets_tests.support.suite.properties import examples

CODECS = [0, GZIP, SNAPPY, LZ4, ZSTD]
PACKED = [GZIP, SNAPPY, LZ4, ZSTD]


@given(content=st.binary(max_size=5000), codec=st.sampled_from(CODECS))
@examples(100)
def test_what_was_packed_comes_back(content: bytes, codec: int) -> None:
    assert decompressed(codec, memoryview(PACK[codec](content))) == content


@given(content=st.binary(min_size=1, max_size=1000))
@examples(30)
def test_the_frame_of_old_java_clients_comes_back(content: bytes) -> None:
    assert decompressed(SNAPPY, memoryview(xerial_snappy(content))) == content


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_is_refused_before_it_grows(codec: int) -> None:
    bomb, largest = memoryview(PACK[codec](bytes(50_000_000))), 1_000_000

    def check() -> None:
        tracemalloc.start()
        with pytest.raises(Unreadable, match="more than 1000000 bytes"):
            decompressed(codec, bomb, largest)
        assert tracemalloc.get_traced_memory()[1] < 10 * largest

    in_a_fork(check)


def test_a_bomb_in_small_frames_is_refused() -> None:
    framed = xerial_snappy(bytes(100_000), block=10_000)
    with pytest.raises(Unreadable, match="more than"):
        decompressed(SNAPPY, memoryview(framed), 50_000)


def test_a_claim_to_be_huge_costs_nothing() -> None:
    claim = b"\xff\xff\xff\xff\x0f" + bytes(10)  # raw snappy begins with its size
    with pytest.raises(Unreadable, match="more than"):
        decompressed(SNAPPY, memoryview(claim))


@given(content=st.binary(min_size=1, max_size=300), codec=st.sampled_from([*PACKED, -SNAPPY]), data=st.data())
@examples(120)
def test_damaged_content_is_a_fault_or_something_within_the_limit(
    content: bytes, codec: int, data: st.DataObject
) -> None:
    damaged = bytearray(xerial_snappy(content) if codec < 0 else PACK[codec](content))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    left = memoryview(damaged)[: data.draw(st.integers(0, len(damaged)))]
    try:
        found = decompressed(abs(codec), left, 10_000)
    except Unreadable:
        return
    assert len(found) <= 10_000
