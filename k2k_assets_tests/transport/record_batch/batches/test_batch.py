"""The header of a batch: what is believed of it, and what is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.transport.record_batch.batches.batch import RecordBatch, batch_at, size_at
from k2k_assets.transport.record_batch.errors import NotByBatches, Unreadable
from k2k_assets_tests.support.brokers.batches import PackedRecord, checked, pack_batch
from k2k_assets_tests.support.suite.properties import examples

THREE = pack_batch(7, [PackedRecord(n) for n in range(3)], epoch=4, producer=9, timestamp=50, latest=60)


def _read(content: bytes) -> RecordBatch:
    view = memoryview(content)
    size = size_at(view, 0)
    assert size is not None
    assert size <= len(view)
    return batch_at(view, 0, size)


def test_it_tells_offsets_count_and_who_wrote_it() -> None:
    batch = _read(THREE)
    assert (batch.base, batch.end, batch.records, batch.leader_epoch) == (7, 10, 3, 4)
    assert (batch.producer_id, batch.base_timestamp, batch.max_timestamp, batch.size) == (9, 50, 60, len(THREE))
    assert batch.is_whole
    assert not batch.is_control


@pytest.mark.parametrize(
    ("attributes", "first"), [(0x00, 50), (0x10, 50), (0x08, 60), (0x40, 60)],
    ids=["the writer's", "in a transaction", "the broker's", "behind a delete horizon"],
)  # fmt: skip
def test_it_tells_when_its_first_record_was_written(attributes: int, first: int) -> None:
    batch = _read(pack_batch(7, [PackedRecord()], attributes=attributes, timestamp=50, latest=60))
    assert batch.first_timestamp == first


@given(at=st.integers(17, len(THREE) - 1), bit=st.integers(0, 7))
@examples(100)
def test_a_flipped_bit_in_what_the_checksum_covers_is_noticed(at: int, bit: int) -> None:
    damaged = bytearray(THREE)
    damaged[at] ^= 1 << bit
    with pytest.raises(Unreadable, match="checksum"):
        _read(bytes(damaged))


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_left_to_the_other_client(magic: int) -> None:
    with pytest.raises(NotByBatches, match=f"magic {magic}"):
        _read(pack_batch(0, [PackedRecord()], magic=magic))


def test_an_attribute_that_is_not_known_is_left_to_the_other_client() -> None:
    for attributes in (0x80, 5):
        with pytest.raises(NotByBatches, match="attributes"):
            _read(pack_batch(0, [PackedRecord()], attributes=attributes, payload=b""))


@pytest.mark.parametrize(
    ("last_delta", "count"), [(-1, 0), (0, -1), (0, 2), (2**31 - 1, -(2**31))], ids=["end", "negative", "many", "edge"]
)
def test_impossible_counts_are_noticed(last_delta: int, count: int) -> None:
    with pytest.raises(Unreadable, match="records in offsets"):
        _read(pack_batch(0, [PackedRecord()], last_delta=last_delta, count=count))


def test_offsets_beyond_all_offsets_are_noticed() -> None:
    with pytest.raises(Unreadable, match="1 record in offsets"):
        _read(pack_batch(2**63 - 1, [PackedRecord()]))
    with pytest.raises(Unreadable, match="at offset -1"):
        _read(pack_batch(-1, [PackedRecord()]))


@pytest.mark.parametrize("length", [-1, 0, 48])
def test_a_length_that_no_batch_can_have_is_noticed(length: int) -> None:
    damaged = THREE[:8] + length.to_bytes(4, "big", signed=True) + THREE[12:]
    with pytest.raises(Unreadable, match=f"{length} bytes"):
        size_at(memoryview(damaged), 0)


@given(st.binary(max_size=120))
@examples(100)
def test_any_bytes_are_a_batch_or_a_fault(content: bytes) -> None:
    view = memoryview(content)
    try:
        size = size_at(view, 0)
        if size is not None and size <= len(view):
            batch_at(memoryview(checked(content)), 0, size)
    except (Unreadable, NotByBatches):
        pass
    else:
        assert size is None or size > len(view) or size >= 61
