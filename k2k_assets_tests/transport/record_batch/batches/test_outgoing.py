"""Batches that pass: their header is made anew, and the sum of their records is that of the source."""

from __future__ import annotations

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.transport.record_batch.batches.batch import RecordBatch, batch_at
from k2k_assets.transport.record_batch.batches.crc_shift import shifted
from k2k_assets.transport.record_batch.batches.outgoing import OutgoingBatch, passed_on, stamped
from k2k_assets.transport.record_batch.errors import Unreadable
from k2k_assets_tests.support.brokers.batches import PackedRecord, pack_batch
from k2k_assets_tests.support.suite.properties import examples

IDS = st.integers(0, 2**63 - 1)
SEQUENCES = st.integers(0, 2**31 - 1)
TIMES = st.integers(-1, 2**62)


def _read(content: bytes) -> RecordBatch:
    return batch_at(memoryview(content), 0, len(content))


@given(
    before=st.binary(min_size=40, max_size=40),
    after=st.binary(min_size=40, max_size=40),
    length=st.integers(0, 70_000) | st.sampled_from([2**16 - 1, 2**16, 2**24 - 1, 2**24, 2**24 + 77, 2**25 + 1]),
    seed=st.binary(min_size=1, max_size=50),
)
@examples(150)
def test_what_a_change_in_front_does_to_a_sum(before: bytes, after: bytes, length: int, seed: bytes) -> None:
    content = (seed * (length // len(seed) + 1))[:length]
    difference = google_crc32c.value(before) ^ google_crc32c.value(after)
    found = google_crc32c.value(before + content) ^ google_crc32c.value(after + content)
    assert shifted(difference, length) == found


@given(
    values=st.lists(st.binary(max_size=300), min_size=1, max_size=5),
    codec=st.integers(0, 4),
    bits=st.sampled_from([0, 16, 64, 16 | 64]),
    base=st.integers(0, 2**60),
    times=st.tuples(TIMES, TIMES),
    producer=IDS,
    epoch=st.integers(0, 2**15 - 1),
    sequence=SEQUENCES,
    is_transactional=st.booleans(),
    has_sum=st.booleans(),
)
@examples(200)
def test_a_batch_that_passes_is_as_the_producer_would_send_it(
    values: list[bytes],
    codec: int,
    bits: int,
    base: int,
    times: tuple[int, int],
    producer: int,
    epoch: int,
    sequence: int,
    is_transactional: bool,
    has_sum: bool,
) -> None:
    records = [PackedRecord(delta, value=value) for delta, value in enumerate(values)]
    first, latest = times
    source = pack_batch(base, records, attributes=codec | bits, producer=5, epoch=9, timestamp=first, latest=latest)
    outgoing = passed_on(_read(source))
    assert list(outgoing.offsets) == list(range(base, base + len(values)))
    sent = stamped(
        outgoing if has_sum else outgoing._replace(checked=None), producer, epoch, sequence, is_transactional
    ) + bytes(outgoing.payload)
    assert len(sent) == outgoing.size == len(source)
    wanted = pack_batch(
        0, records, attributes=codec | 16 * is_transactional, producer=producer, producer_epoch=epoch,
        sequence=sequence, epoch=-1, timestamp=first, latest=latest,
    )  # fmt: skip
    assert sent == wanted


@given(at=st.integers(0, 400), bit=st.integers(0, 7), is_transactional=st.booleans())
@examples(60)
def test_what_damages_the_records_on_the_way_is_seen_by_who_receives_them(
    at: int, bit: int, is_transactional: bool
) -> None:
    content = bytearray(pack_batch(0, [PackedRecord(delta, value=bytes(100)) for delta in range(4)]))
    outgoing = passed_on(batch_at(memoryview(content), 0, len(content)))
    content[61 + at % len(outgoing.payload)] ^= 1 << bit
    sent = stamped(outgoing, 1, 0, 0, is_transactional) + bytes(outgoing.payload)
    with pytest.raises(Unreadable, match="checksum"):
        _read(sent)


def test_a_batch_of_nobody_has_no_producer() -> None:
    outgoing = OutgoingBatch(0, 0, 0, 1, b"\x0c\0\0\0\1\1\0", range(1))
    found = _read(stamped(outgoing) + bytes(outgoing.payload))
    assert (found.producer_id, found.leader_epoch, found.records, found.is_transactional) == (-1, -1, 1, False)
    assert bytes(found.header[51:57]) == b"\xff" * 6
