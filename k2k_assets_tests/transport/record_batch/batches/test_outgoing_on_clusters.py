"""Outgoing batches on real brokers: they take them, and librdkafka reads what was meant."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from confluent_kafka import Producer

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline.sections.added_headers import AddedHeader
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.interface import Position
from k2k_assets.transport.librdkafka.source import LibrdkafkaSource
from k2k_assets.transport.record_batch.batches.batch import batch_at
from k2k_assets.transport.record_batch.batches.codecs import GZIP, LZ4, SNAPPY, ZSTD
from k2k_assets.transport.record_batch.batches.columns import ArrivedBatch, BatchRecords, arrived
from k2k_assets.transport.record_batch.batches.outgoing import OutgoingBatch, stamped
from k2k_assets.transport.record_batch.batches.packing_settings import PackingSettings
from k2k_assets.transport.record_batch.batches.rewriting import outgoing_of
from k2k_assets.transport.record_batch.reading.source import BatchSource
from k2k_assets_tests.support.brokers.batches import PackedRecord, pack_batch, pack_record
from k2k_assets_tests.support.brokers.kafka import SECONDS, client_settings, create_topic, unique
from k2k_assets_tests.support.brokers.odd_frames import ODD_FRAMES, Frame
from k2k_assets_tests.support.brokers.outgoing import SentRecord, received, should_be_sent
from k2k_assets_tests.support.brokers.raw_records import BatchRefused, produce_batch

pytestmark = pytest.mark.integration

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SOURCE = TopicPartition("orders", 0)
NOW = 1_700_000_000_123
CORRUPT_MESSAGE, INVALID_RECORD = 2, 87
# The first bytes do not tell these.
REFUSED = {"lz4, several frames"}
NOT_READ_BY_LIBRDKAFKA = {"snappy, several framed streams", "gzip, several members"}


def _send(servers: str, topic: str, batches: Sequence[OutgoingBatch]) -> list[int]:
    """Writes batches as one that is no transaction; returns where each begins."""
    return [produce_batch(servers, topic, 0, stamped(batch) + batch.payload) for batch in batches]


def _as_librdkafka_reads(servers: str, topic: str, count: int) -> list[SentRecord]:
    source = LibrdkafkaSource({"bootstrap.servers": servers})
    source.assign({TopicPartition(topic, 0): Position(0)})
    found: list[SentRecord] = []
    deadline = Deadline(SECONDS)
    while len(found) < count:
        for chunk in source.poll(10_000, 0.1).chunks:
            columns = chunk.columns()
            headers = [[(name.encode(), value) for name, value in has or ()] for has in columns.headers()]
            rows = zip(columns.offsets(), columns.keys(), columns.values(), headers, columns.timestamps(), strict=True)
            found += map(SentRecord._make, rows)
        assert not deadline.expired(), f"{len(found)} records of {count} were read"
    source.close()
    return found


def _ensure_copied(servers: str, batches: Sequence[OutgoingBatch]) -> None:
    topic = create_topic(servers, unique("copies"))
    meant = received(batches)
    begins = _send(servers, topic, batches)
    assert begins == [sum(batch.records for batch in batches[:n]) for n in range(len(batches))]
    assert _as_librdkafka_reads(servers, topic, len(meant)) == [
        record._replace(offset=n) for n, record in enumerate(meant)
    ]


def _arrived(
    records: Sequence[PackedRecord],
    position: int = 0,
    *,
    attributes: int = 0,
    timestamp: int = NOW,
    latest: int = NOW,
    frame: Frame | None = None,
) -> ArrivedBatch:
    payload = frame(b"".join(map(pack_record, records))) if frame else None
    content = pack_batch(0, records, attributes=attributes, timestamp=timestamp, latest=latest, payload=payload)
    found = arrived(batch_at(memoryview(content), 0, len(content)), position)
    assert found is not None
    return found


def _chunk(batches: Sequence[ArrivedBatch], **rest: object) -> Chunk:
    return Chunk(SOURCE, BatchRecords(SOURCE, batches), "copies", 0, **rest)  # type: ignore[arg-type]


def _outgoing(chunk: Chunk, settings: PackingSettings) -> list[OutgoingBatch]:
    return outgoing_of(chunk, settings, lambda: NOW / 1000)


ODD = [
    PackedRecord(n, (None, b"", b"key-%d" % n)[n % 3], (b"", None, b"v%d" % n * (n % 90))[n % 4 % 3],
                 [(b"a", b"1"), ("ü".encode(), None), (b"a", b"")][: n % 4], n % 7 * 1000)
    for n in range(700)
]  # fmt: skip


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
@pytest.mark.parametrize("asked", [None, *range(5)], ids=["as it is", *CODECS])
def test_every_codec_from_every_codec(clusters: KafkaSandbox, codec: int, asked: int | None) -> None:
    servers = clusters.target_servers
    batches = [_arrived(ODD, attributes=codec, timestamp=NOW - 10_000, latest=NOW)]
    made = _outgoing(_chunk(batches), PackingSettings(1_000_000, asked))
    assert [batch.attributes for batch in made] == [codec if asked is None else asked]
    _ensure_copied(servers, made)
    anew = _outgoing(_chunk(batches, keep_headers=False), PackingSettings(3000, asked))
    assert len(anew) > 1
    _ensure_copied(servers, anew)


@pytest.mark.parametrize("kind", ODD_FRAMES)
def test_every_frame_that_a_source_may_have_taken(clusters: KafkaSandbox, kind: str) -> None:
    """Sources that are not Apache Kafka do not look into batches, and the target refuses what Java cannot read."""
    servers = clusters.target_servers
    codec, frame = ODD_FRAMES[kind]
    records = [PackedRecord(n, b"%d" % n, b"%d" % n * 100) for n in range(700)]
    batch = _arrived(records, attributes=codec, frame=frame)
    made = _outgoing(_chunk([batch]), PackingSettings(1_000_000))
    assert [each.attributes for each in made] == [codec]
    if kind in REFUSED:
        with pytest.raises(BatchRefused) as refused:
            _send(servers, create_topic(servers, unique("refused")), made)
        assert refused.value.code == INVALID_RECORD, "a verdict that stops the partition with its offset"
    elif kind in NOT_READ_BY_LIBRDKAFKA:
        assert _send(servers, create_topic(servers, unique("taken")), made) == [0]
    else:
        _ensure_copied(servers, made)


@pytest.mark.parametrize(
    ("codec", "level"), [(GZIP, 0), (GZIP, 9), (SNAPPY, -1), (LZ4, 1), (LZ4, 12), (ZSTD, 1), (ZSTD, 22)]
)
def test_every_level(clusters: KafkaSandbox, codec: int, level: int) -> None:
    # More than one block of LZ4, of which some cannot be compressed.
    noise = bytes(hash((n, codec)) & 0xFF for n in range(200_000))
    records = [
        PackedRecord(n, None, noise[n * 1000 : (n + 1) * 1000] if n % 150 < 80 else bytes(1000)) for n in range(200)
    ]
    settings = PackingSettings(1_000_000, codec, level)
    made = _outgoing(_chunk([_arrived(records)]), settings)
    _ensure_copied(clusters.target_servers, made)


@pytest.mark.parametrize("codec", CODECS)
def test_what_a_real_producer_wrote_passes_with_its_own_bytes(clusters: KafkaSandbox, codec: str) -> None:
    servers = clusters.source_servers
    tp = TopicPartition(create_topic(servers, unique("written")), 0)
    producer = Producer({**client_settings(servers), "compression.type": codec, "linger.ms": 50})
    for n in range(500):
        producer.produce(tp.topic, b"v%d" % n * 20, b"k%d" % n, 0, timestamp=NOW + n, headers=[("h", b"%d" % n)])
    assert producer.flush(SECONDS) == 0
    source = BatchSource({"bootstrap.servers": servers})
    source.assign({tp: Position(0)})
    made: list[OutgoingBatch] = []
    deadline = Deadline(SECONDS)
    while sum(batch.records for batch in made) < 500:
        for chunk in source.poll(1000, 0.1).chunks:
            chunk.target_partition = 0
            made += outgoing_of(chunk, PackingSettings(1_000_000))
        assert not deadline.expired()
    source.close()
    assert all(batch.checked for batch in made)
    _ensure_copied(clusters.target_servers, made)


def test_what_was_damaged_on_the_way_is_refused(clusters: KafkaSandbox) -> None:
    servers = clusters.target_servers
    topic = create_topic(servers, unique("damaged"))
    content = bytearray(pack_batch(0, ODD, timestamp=NOW, latest=NOW))
    batch = arrived(batch_at(memoryview(content), 0, len(content)), 0)
    assert batch is not None
    made = _outgoing(_chunk([batch]), PackingSettings(1_000_000))
    content[-40] ^= 4
    with pytest.raises(BatchRefused) as refused:
        _send(servers, topic, made)
    assert refused.value.code == CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
def test_gaps_positions_and_append_times(clusters: KafkaSandbox, codec: int) -> None:
    gaps = [record._replace(delta=record.delta * 3) for record in ODD]
    batches = [
        _arrived(gaps, 900, attributes=codec, timestamp=NOW - 10_000, latest=NOW),
        _arrived(ODD, attributes=codec | 8, timestamp=5, latest=NOW),
        _arrived(ODD[:1], attributes=codec | 64, timestamp=NOW, latest=NOW),
    ]
    _ensure_copied(clusters.target_servers, _outgoing(_chunk(batches), PackingSettings(1_000_000)))


@pytest.mark.parametrize("time", [0, -1])
@pytest.mark.parametrize("is_packed_anew", [False, True])
def test_a_time_of_zero_and_none_at_all(clusters: KafkaSandbox, time: int, is_packed_anew: bool) -> None:
    batches = [_arrived([PackedRecord(0), PackedRecord(1)], timestamp=time, latest=time)]
    added = (AddedHeader("a", "offset"),) if is_packed_anew else ()
    made = _outgoing(_chunk(batches, added=added), PackingSettings(1_000_000))
    assert {record.time for record in received(made)} == {time}
    _ensure_copied(clusters.target_servers, made)


def test_small_ones_joined_with_other_times_and_headers(clusters: KafkaSandbox) -> None:
    batches = []
    for n, record in enumerate(ODD):
        content = pack_batch(n * 2, [record._replace(delta=0)], timestamp=NOW + n * 100, latest=NOW + 10**6)
        batches.append(ArrivedBatch(batch_at(memoryview(content), 0, len(content)), [n * 2]))
    added = (AddedHeader("__k2k_partition", "partition"), AddedHeader("__k2k_offset", "offset"))
    for chunk in (
        _chunk(batches),
        _chunk(batches, keep_timestamps=False, added=added),
        _chunk(batches, keep_headers=False, added=added),
    ):
        made = _outgoing(chunk, PackingSettings(1_000_000))
        assert len(made) == 1
        columns = BatchRecords(SOURCE, batches).columns()
        rows = zip(
            columns.offsets(), columns.keys(), columns.values(), map(list, columns.raw_headers()), columns.timestamps(),
            strict=True,
        )  # fmt: skip
        assert received(made) == should_be_sent(chunk, list(map(SentRecord._make, rows)), NOW)
        _ensure_copied(clusters.target_servers, made)


def test_many_records_and_many_headers(clusters: KafkaSandbox) -> None:
    headers = [(b"name-%d" % n, b"v" * (n % 90)) for n in range(5000)]
    records = [PackedRecord(n, b"k%d" % n, b"v", headers if n == 70_000 else ()) for n in range(100_000)]
    batches = [_arrived(records, attributes=ZSTD)]
    made = _outgoing(_chunk(batches, keep_timestamps=False), PackingSettings(500_000))
    _ensure_copied(clusters.target_servers, made)
