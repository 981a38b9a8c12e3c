"""What becomes of a chunk's batches: each record arrives once, in order, with what the chunk's settings mean."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline.sections.added_headers import AddedHeader
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.errors import SourceStopped
from k2k_assets.transport.record_batch.batches import joining
from k2k_assets.transport.record_batch.batches.batch import RecordBatch, batch_at
from k2k_assets.transport.record_batch.batches.codecs import GZIP, LZ4, NONE, ZSTD
from k2k_assets.transport.record_batch.batches.columns import ArrivedBatch, BatchRecords, arrived
from k2k_assets.transport.record_batch.batches.outgoing import OutgoingBatch
from k2k_assets.transport.record_batch.batches.packing_settings import PackingSettings, packing_settings
from k2k_assets.transport.record_batch.batches.rewriting import outgoing_of
from k2k_assets.transport.record_batch.errors import NotByBatches, Unreadable
from k2k_assets.transport.rewritten import RewrittenColumns
from k2k_assets_tests.support.brokers.batches import PackedRecord, pack_batch, pack_record
from k2k_assets_tests.support.brokers.outgoing import SentRecord, read_by_kio, received, should_be_sent
from k2k_assets_tests.support.suite.properties import examples

SOURCE = TopicPartition("orders", 3)
NOW = 1_700_000_000_123
PLAIN = PackingSettings(1_000_000)
FIELDS = st.none() | st.binary(max_size=80) | st.sampled_from([b"x" * 63, b"y" * 64, b"z" * 9000])
# Names that are no UTF-8 too.
PAIRS = st.tuples(st.sampled_from([b"mark", b"\xff\x00"]) | st.binary(max_size=8), st.none() | st.binary(max_size=8))
HEADERS = st.just(()) | st.lists(PAIRS, max_size=3)
LATER = st.integers(0, 3) | st.integers(-(2**40), 2**40)
ADDED = (
    AddedHeader("__k2k_topic", "topic"),
    AddedHeader("__k2k_offset", "offset"),
    AddedHeader("mark", "text", "here"),
    AddedHeader("__k2k_partition", "partition"),
)


@st.composite
def _batches(draw: st.DrawFn) -> list[RecordBatch]:
    """Batches one behind the other: small and large, with gaps, compressed, with the broker's time."""
    found, base = [], draw(st.integers(0, 2**50))
    has_headers = draw(st.booleans())
    for _ in range(draw(st.integers(1, 5))):
        kinds = draw(
            st.lists(st.tuples(FIELDS, FIELDS, HEADERS if has_headers else st.just(()), LATER), min_size=1, max_size=4)
        )
        step = draw(st.sampled_from([1, 1, 1, 2, 70]))
        records = [
            PackedRecord(n * step, *kinds[n % len(kinds)]) for n in range(draw(st.sampled_from([1, 1, len(kinds), 60])))
        ]
        last = records[-1].delta + draw(st.sampled_from([0, 0, 0, 3]))
        bits = draw(st.sampled_from([0, 0, 8, 16, 64]))
        packed = pack_batch(
            base, records, attributes=draw(st.integers(0, 4)) | bits, last_delta=last,
            timestamp=draw(st.sampled_from([0, -1, 1000])), latest=2**41,
        )  # fmt: skip
        found.append(batch_at(memoryview(packed), 0, len(packed)))
        base += last + 1 + draw(st.integers(0, 2))
    return found


def _arrived(batches: Sequence[RecordBatch], position: int) -> list[ArrivedBatch]:
    return [found for batch in batches if batch.end > position and (found := arrived(batch, position))]


def _chunk(batches: Sequence[ArrivedBatch], **rest: object) -> Chunk:
    return Chunk(SOURCE, BatchRecords(SOURCE, batches), "copies", 3, **rest)  # type: ignore[arg-type]


def _one(records: Sequence[PackedRecord], **rest: int) -> ArrivedBatch:
    content = pack_batch(500, records, **rest)  # type: ignore[arg-type]
    found = arrived(batch_at(memoryview(content), 0, len(content)), 0)
    assert found is not None
    return found


def _records(batches: Sequence[ArrivedBatch]) -> list[SentRecord]:
    """All records as the source has them."""
    columns = BatchRecords(SOURCE, batches).columns()
    headers = map(list, columns.raw_headers())
    found = zip(columns.offsets(), columns.keys(), columns.values(), headers, columns.timestamps(), strict=True)
    return list(map(SentRecord._make, found))


def _outgoing(chunk: Chunk, settings: PackingSettings = PLAIN) -> list[OutgoingBatch]:
    return outgoing_of(chunk, settings, lambda: NOW / 1000)


@given(
    batches=_batches(),
    below=st.integers(0, 100),
    keep_headers=st.booleans(),
    keep_timestamps=st.booleans(),
    carried=st.sampled_from(["", "mark"]),
    added=st.sampled_from([(), ADDED[:1], ADDED[:2], ADDED]),
    limit=st.sampled_from([100, 3000, 20_000, 1_000_000]),
    codec=st.none() | st.integers(0, 4),
    joined=st.sampled_from([0, 10_000, 256 * 1024]),
    few=st.sampled_from([0, 48, 10**9]),
    is_decoded=st.booleans(),
)
@examples(200)
def test_each_record_arrives_as_the_settings_mean(
    batches: list[RecordBatch],
    below: int,
    keep_headers: bool,
    keep_timestamps: bool,
    carried: str,
    added: tuple[AddedHeader, ...],
    limit: int,
    codec: int | None,
    joined: int,
    few: int,
    is_decoded: bool,
) -> None:
    found = _arrived(batches, batches[0].base + below)
    if not found:
        return
    chunk = _chunk(found, keep_headers=keep_headers, keep_timestamps=keep_timestamps, carried=carried, added=added)
    if is_decoded:
        chunk.columns()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joining, "_FEW", few)
        made = _outgoing(chunk, PackingSettings(limit, codec, joined_bytes=joined))
    assert received(made) == should_be_sent(chunk, _records(found), NOW)
    assert all(batch.size <= limit or batch.records == 1 for batch in made)
    if codec is not None:
        assert {batch.attributes for batch in made} <= {codec, NONE}
    for batch in made:
        sent = received([batch])
        if batch.attributes == NONE and min(each.time for each in sent) >= 0:  # `kio` knows no time before 1970
            assert read_by_kio(batch) == [(each.key, each.value, each.headers) for each in sent]


@given(batches=_batches(), data=st.data(), codec=st.none() | st.integers(0, 4))
@examples(100)
def test_records_that_a_stage_changed_or_left_out(
    batches: list[RecordBatch], data: st.DataObject, codec: int | None
) -> None:
    found = _arrived(batches, 0)
    records = _records(found)
    kept = (
        [data.draw(st.booleans()) for _ in records] if len(records) < 60 else [n % 3 != 1 for n in range(len(records))]
    )
    chunk = _chunk(found, keep_headers=data.draw(st.booleans()), added=data.draw(st.sampled_from([(), ADDED])))
    chunk.drop(kept, "some rule")
    if data.draw(st.booleans()):
        columns = chunk.columns()
        chunk.records = RewrittenColumns(columns, columns.values(), columns.keys())
        records = [record._replace(key=record.value, value=record.key) for record in records]
    left = [record for record, is_kept in zip(records, kept, strict=True) if is_kept]
    made = _outgoing(chunk, PackingSettings(5000, codec))
    assert received(made) == should_be_sent(chunk, left, NOW)
    assert all(batch.size <= 5000 or batch.records == 1 for batch in made)


def test_new_headers_are_written_and_the_codec_of_the_source_is_kept() -> None:
    columns = BatchRecords(SOURCE, [_one([PackedRecord(n, value=bytes(500)) for n in range(5)], attributes=ZSTD)])
    has = columns.columns()
    headers = [[("name", b"x"), ("name", None)]] * 5
    chunk = Chunk(SOURCE, RewrittenColumns(has, has.keys(), has.values(), headers), "copies", 3)
    made = _outgoing(chunk)
    assert [batch.attributes for batch in made] == [ZSTD]
    assert [record.headers for record in received(made)] == [[(b"name", b"x"), (b"name", None)]] * 5


def test_what_may_pass_passes_with_its_own_bytes_and_sum() -> None:
    large = [PackedRecord(n, value=bytes(100)) for n in range(50)]
    for codec in range(5):
        batch = _one(large, attributes=codec)
        for keep_headers in (True, False):  # it has none
            (made,) = _outgoing(_chunk([batch], keep_headers=keep_headers))
            assert made.payload is batch.batch.payload
            assert made.checked is not None
    # And also where a stage has looked at the records.
    chunk = _chunk([_one(large)])
    chunk.columns()
    assert _outgoing(chunk)[0].checked is not None


@pytest.mark.parametrize(
    "chunk",
    [
        _chunk([_one([PackedRecord(n, headers=[(b"a", b"")]) for n in range(300)])], keep_headers=False),
        _chunk([_one([PackedRecord(n) for n in range(300)])], added=ADDED[:1]),
        _chunk([_one([PackedRecord(n) for n in range(300)])], keep_timestamps=False),
        _chunk([_one([PackedRecord(n) for n in range(300)], attributes=8)]),
        _chunk([_one([PackedRecord(2 * n) for n in range(300)])]),
    ],
    ids=["headers", "added", "times", "broker's time", "gaps"],
)
def test_what_may_not_pass_is_packed_anew(chunk: Chunk) -> None:
    (made,) = _outgoing(chunk)
    assert made.checked is None
    assert made.records == 300


def test_headers_of_a_late_record_are_found() -> None:
    late = [PackedRecord(n, headers=[(b"a", b"b")] if n == 299 else ()) for n in range(300)]
    (made,) = _outgoing(_chunk([_one(late)], keep_headers=False))
    assert all(record.headers == [] for record in received([made]))


def test_small_batches_become_one_and_a_lone_one_passes() -> None:
    batches = []
    for n in range(200):
        content = pack_batch(n * 3, [PackedRecord(0), PackedRecord(1)], timestamp=1000 + n)
        batches.append(ArrivedBatch(batch_at(memoryview(content), 0, len(content)), range(n * 3, n * 3 + 2)))
    (made,) = _outgoing(_chunk(batches))
    assert made.records == 400
    assert received([made]) == _records(batches)
    (alone,) = _outgoing(_chunk(batches[:1]))
    assert alone.checked is not None
    # A compressed one passes between them.
    batches[100] = _one([PackedRecord(n, value=bytes(100)) for n in range(50)], attributes=LZ4)
    assert [batch.records for batch in _outgoing(_chunk(batches))] == [200, 50, 198]


def test_compressed_ones_of_very_few_records_are_joined_too_and_others_pass() -> None:
    def batches(count: int) -> list[ArrivedBatch]:
        records = [PackedRecord(n, b"key", b"value" * 20) for n in range(count)]
        packed = [pack_batch(500 + n * count, records, attributes=ZSTD) for n in range(9)]
        return _arrived([batch_at(memoryview(each), 0, len(each)) for each in packed], 0)

    (joined,) = _outgoing(_chunk(batches(10)))
    assert (joined.attributes, joined.records) == (ZSTD, 90)
    assert received([joined]) == _records(batches(10))
    assert [each.records for each in _outgoing(_chunk(batches(11)))] == [11] * 9


def test_larger_ones_of_few_records_are_joined_too() -> None:
    def batches(count: int) -> list[ArrivedBatch]:
        records = [PackedRecord(n, None, bytes(1000)) for n in range(count)]
        packed = [pack_batch(500 + n * count, records) for n in range(3)]
        return _arrived([batch_at(memoryview(each), 0, len(each)) for each in packed], 0)

    assert [each.records for each in _outgoing(_chunk(batches(24)))] == [72]
    assert [each.records for each in _outgoing(_chunk(batches(25)))] == [25] * 3


def test_joined_ones_are_no_larger_than_they_may_be() -> None:
    one = _one([PackedRecord(0, value=bytes(1000))])
    made = _outgoing(_chunk([one] * 30), PackingSettings(1_000_000, joined_bytes=10_300))
    assert [batch.records for batch in made] == [10, 10, 10]


def test_a_record_that_is_too_large_stays_a_batch_of_its_own() -> None:
    records = [PackedRecord(0, value=bytes(50)), PackedRecord(1, value=b"x" * 5000), PackedRecord(2, value=bytes(50))]
    made = _outgoing(_chunk([_one(records)]), PackingSettings(1000))
    assert [batch.records for batch in made] == [1, 1, 1]
    assert made[1].size > 1000


def test_a_batch_in_another_compression_is_compressed_anew() -> None:
    content = bytes(range(256)) * 4
    for asked in range(5):
        batch = _one([PackedRecord(n, value=content) for n in range(100)], attributes=GZIP)
        (made,) = _outgoing(_chunk([batch]), PackingSettings(1_000_000, asked))
        assert made.attributes == asked
        assert (made.checked is None) == (asked != GZIP)
        assert received([made]) == _records([batch])


def test_what_no_compression_makes_smaller_stays_as_it_is() -> None:
    (made,) = _outgoing(_chunk([_one([PackedRecord(value=b"q")])]), PackingSettings(1000, ZSTD))
    assert made.attributes == NONE


def test_many_records_and_many_headers() -> None:
    headers = [(b"name-%d" % n, b"v" * (n % 90)) for n in range(1500)]
    records = [PackedRecord(n, b"k%d" % n, b"v", headers if n == 6_000 else ()) for n in range(9_000)]
    batch = _one(records)
    for keep_headers, most in ((True, 90_000), (False, 30_000)):
        chunk = _chunk([batch], keep_headers=keep_headers, keep_timestamps=False)
        made = _outgoing(chunk, PackingSettings(most))
        assert len(made) > 2
        assert max(each.size for each in made) <= most
        assert received(made) == should_be_sent(chunk, _records([batch]), NOW)


@pytest.mark.parametrize("count", [1, 100])
def test_times_that_are_further_apart_than_a_batch_can_tell(count: int) -> None:
    records = [PackedRecord(n, later=(-1) ** n * (2**62 + n)) for n in range(2 * count)]
    batch = _one([record._replace(delta=2 * record.delta) for record in records], timestamp=0)
    made = _outgoing(_chunk([batch]))
    assert received(made) == _records([batch])


def test_without_a_partition_the_producer_has_to_choose() -> None:
    chunk = Chunk(SOURCE, BatchRecords(SOURCE, [_one([PackedRecord()])]), "copies", None)
    with pytest.raises(NotByBatches, match="whose partition the producer chooses"):
        _outgoing(chunk)


def test_a_chunk_of_which_all_was_left_out_is_no_batch() -> None:
    chunk = _chunk([_one([PackedRecord(), PackedRecord(1)])])
    chunk.drop([False, False], "some rule")
    assert _outgoing(chunk) == []


@pytest.mark.parametrize("count", [3, 100])
def test_a_corrupt_batch_is_named(count: int) -> None:
    good = _one([PackedRecord(n) for n in range(count)])
    damaged = pack_batch(900, [PackedRecord(n) for n in range(count)], payload=pack_record(PackedRecord(1)) * count)
    batch = batch_at(memoryview(damaged), 0, len(damaged))
    chunk = _chunk([good, ArrivedBatch(batch, range(900, 900 + count))], keep_timestamps=False)
    with pytest.raises(SourceStopped, match="900"):
        _outgoing(chunk)


@given(
    records=st.lists(st.tuples(FIELDS, FIELDS, HEADERS, LATER), min_size=1, max_size=4),
    data=st.data(),
    few=st.sampled_from([0, 10**9]),
    keep_headers=st.booleans(),
    added=st.sampled_from([(), ADDED]),
    keep_timestamps=st.booleans(),
)
@examples(200)
def test_damaged_records_stop_the_source_or_pass_as_a_broker_can_read_them(
    records: list[tuple[bytes | None, bytes | None, list[tuple[bytes, bytes | None]], int]],
    data: st.DataObject,
    few: int,
    keep_headers: bool,
    added: tuple[AddedHeader, ...],
    keep_timestamps: bool,
) -> None:
    """Damaged before the checksum was made, as by a broken producer."""
    packed = [PackedRecord(n, *records[n % len(records)]) for n in range(data.draw(st.sampled_from([1, 4, 40])))]
    payload = bytearray(b"".join(map(pack_record, packed)))
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    content = pack_batch(100, packed, payload=bytes(payload[: data.draw(st.integers(0, len(payload)))]))
    batch = batch_at(memoryview(content), 0, len(content))
    chunk = _chunk(
        [ArrivedBatch(batch, range(100, 100 + len(packed)))],
        keep_headers=keep_headers, added=added, keep_timestamps=keep_timestamps,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch, suppress(SourceStopped):
        patch.setattr(joining, "_FEW", few)
        made = _outgoing(chunk, PackingSettings(2000))
        assert sum(each.size for each in made) < 20 * len(content) + 10_000
        if any(each.checked is None for each in made) and not keep_headers:
            with suppress(Unreadable):  # a part that is not looked into
                received(made)


@pytest.mark.parametrize(
    ("properties", "codec", "joined"),
    [
        ({}, None, 100_000),
        ({"compression.type": "zstd", "batch.size": 5000}, ZSTD, 5000),
        ({"compression.codec": "none"}, NONE, 100_000),
    ],
)
def test_settings_of_a_producer(properties: dict[str, object], codec: int | None, joined: int) -> None:
    found = packing_settings({**properties, "compression.level": "7"}, 100_000)
    assert (found.batch_bytes, found.codec, found.level, found.joined_bytes) == (100_000, codec, 7, joined)


def test_a_compression_that_is_not_known_is_left_to_the_other_client() -> None:
    with pytest.raises(NotByBatches, match="brotli"):
        packing_settings({"compression.type": "brotli"}, 1)


@pytest.mark.parametrize("count", [20, 300])
def test_added_offsets_of_any_number_of_digits(count: int) -> None:
    added = (
        AddedHeader("100%d", "offset"),
        AddedHeader("%", "text", "50 %s"),
        AddedHeader("__k2k_offset", "offset"),
    )
    content = pack_batch(0, [PackedRecord(n, headers=[(b"a%d", b"%")]) for n in range(count)])
    batch = ArrivedBatch(batch_at(memoryview(content), 0, len(content)), range(count))
    for keep_headers in (True, False):
        chunk = _chunk([batch], keep_headers=keep_headers, added=added)
        assert received(_outgoing(chunk)) == should_be_sent(chunk, _records([batch]), NOW)


@pytest.mark.parametrize("keep_timestamps", [True, False])
@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_what_just_fits_is_one_batch(keep_timestamps: bool, codec: int) -> None:
    records = [PackedRecord(n, value=b"%d" % n * 9, headers=[(b"a", b"b")]) for n in range(400)]
    chunk = _chunk([_one(records, attributes=codec)], keep_headers=False, keep_timestamps=keep_timestamps)
    (whole,) = _outgoing(chunk)
    assert len(_outgoing(chunk, PackingSettings(whole.size))) == 1
    cut = _outgoing(chunk, PackingSettings(whole.size - 1))
    assert len(cut) in (2, 3)
    assert received(cut) == received([whole])
