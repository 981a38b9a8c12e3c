"""Records in a batch: what was packed comes back, and damaged ones are a fault."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.transport.record_batch.batches.batch import RecordBatch, batch_at
from k2k_assets.transport.record_batch.batches.record_codec import decoded
from k2k_assets.transport.record_batch.errors import Unreadable
from k2k_assets_tests.support.brokers.batches import PackedRecord, pack_batch, pack_record
from k2k_assets_tests.support.suite.properties import examples

# Numbers of one, two and three bytes are read in different ways.
MAYBE = st.none() | st.binary(max_size=200) | st.sampled_from([b"x" * 63, b"x" * 64, b"x" * 8191, b"x" * 8192])
HEADERS = st.lists(st.tuples(st.binary(max_size=10), st.none() | st.binary(max_size=10)), max_size=3)
LATER = st.integers(-(2**40), 2**40)


@st.composite
def _records(draw: st.DrawFn, least: int = 1) -> list[PackedRecord]:
    deltas = sorted(draw(st.sets(st.integers(0, 300) | st.integers(8000, 10_000), min_size=least, max_size=8)))
    return [PackedRecord(delta, draw(MAYBE), draw(MAYBE), draw(HEADERS), draw(LATER)) for delta in deltas]


def _batch(content: bytes) -> RecordBatch:
    return batch_at(memoryview(content), 0, len(content))


@given(records=_records(), codec=st.integers(0, 4), base=st.integers(0, 2**60))
@examples(100)
def test_every_field_comes_back(records: list[PackedRecord], codec: int, base: int) -> None:
    found = decoded(_batch(pack_batch(base, records, attributes=codec, timestamp=10**12)))
    assert found.offsets == [base + record.delta for record in records]
    assert found.timestamps == [10**12 + record.later for record in records]
    assert (found.keys, found.values) == ([r.key for r in records], [r.value for r in records])
    assert [list(each) for each in found.headers] == [list(record.headers) for record in records]


def test_where_the_broker_sets_the_time_all_records_have_the_latest() -> None:
    batch = _batch(pack_batch(0, [PackedRecord(0), PackedRecord(1, later=5)], attributes=8, latest=777))
    assert decoded(batch).timestamps == [777, 777]


@pytest.mark.parametrize("later", [2**63 - 1000, -(2**62) - 2**62 - 1001])
def test_a_timestamp_that_fits_in_no_column_is_a_fault(later: int) -> None:
    with pytest.raises(Unreadable, match="64 bits"):
        decoded(_batch(pack_batch(0, [PackedRecord(0, later=later)], timestamp=1000)))


@given(records=_records(), data=st.data())
@examples(100)
def test_damaged_records_are_a_fault_or_records_within_the_batch(
    records: list[PackedRecord], data: st.DataObject
) -> None:
    """Damaged before the checksum was made, as by a broken producer."""
    payload = bytearray(b"".join(map(pack_record, records)))
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    left = bytes(payload[: data.draw(st.integers(0, len(payload)))])
    batch = _batch(pack_batch(100, records, payload=left))
    found = None
    with suppress(Unreadable):
        found = decoded(batch)
    if found is None:
        return
    assert len(found.offsets) == len(found.headers) == batch.records
    assert found.offsets == sorted(set(found.offsets))
    assert batch.base <= found.offsets[0] <= found.offsets[-1] < batch.end


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (pack_record(PackedRecord()), "end too early"),
        (pack_record(PackedRecord()) * 2, "behind one"),
        (pack_record(PackedRecord()) + pack_record(PackedRecord(2)), "of 2"),
        (pack_record(PackedRecord()) + pack_record(PackedRecord(1)) + b"\0", "behind its last record"),
        (b"\x01" * 30, "longer than"),
        (b"\xff" * 30, "does not end"),
    ],
)
def test_what_is_wrong_is_said(payload: bytes, words: str) -> None:
    two = [PackedRecord(0), PackedRecord(1)]
    with pytest.raises(Unreadable, match=words):
        decoded(_batch(pack_batch(0, two, payload=payload)))
