"""Records that are packed come back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.transport.record_batch.batches.batch import batch_at
from k2k_assets.transport.record_batch.batches.outgoing import stamped
from k2k_assets.transport.record_batch.batches.packing import Record, packed
from k2k_assets.transport.record_batch.batches.record_codec import decoded
from k2k_assets_tests.support.suite.properties import examples

FIELDS = st.none() | st.binary(max_size=200) | st.sampled_from([b"x" * 63, b"x" * 64, b"x" * 8191, b"x" * 8192])
HEADERS = st.lists(st.tuples(st.binary(max_size=10), st.none() | st.binary(max_size=10)), max_size=3)
TIMES = st.integers(-1, 2**60)
RECORDS: st.SearchStrategy[list[Record]] = st.lists(st.tuples(FIELDS, FIELDS, HEADERS, TIMES), min_size=1, max_size=8)


@given(records=RECORDS, codec=st.integers(0, 4))
@examples(100)
def test_records_come_back(records: list[Record], codec: int) -> None:
    outgoing = packed(records, codec)
    sent = stamped(outgoing, 7, 1, 3, is_transactional=True) + outgoing.payload
    found = decoded(batch_at(memoryview(sent), 0, len(sent)))
    assert found.offsets == list(range(len(records))) == list(outgoing.offsets)
    assert (found.keys, found.values) == ([r[0] for r in records], [r[1] for r in records])
    assert [list(each) for each in found.headers] == [r[2] for r in records]
    assert found.timestamps == [r[3] for r in records]
    assert (outgoing.base_timestamp, outgoing.max_timestamp) == (records[0][3], max(found.timestamps))
