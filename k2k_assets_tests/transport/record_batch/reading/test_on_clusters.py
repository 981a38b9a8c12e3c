"""Batches of real brokers, as they were compressed by a real producer: the same records as librdkafka reads."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from confluent_kafka import Producer

from k2k_assets.core.deadline import Deadline, wait_until
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.stops.reasons.source_topic import SourceDeleted, SourceRecreated
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.chunk import Chunk, UnreadableRecord
from k2k_assets.transport.errors import SourceStopped
from k2k_assets.transport.interface import Position, Source
from k2k_assets.transport.librdkafka.source import LibrdkafkaSource
from k2k_assets.transport.record_batch.batches.columns import BatchRecords
from k2k_assets.transport.record_batch.reading import source as source_module
from k2k_assets.transport.record_batch.reading.source import BatchSource
from k2k_assets.transport.record_batch.wire import fetch_messages
from k2k_assets_tests.support.brokers.kafka import (
    SECONDS,
    OpenTransaction,
    client_settings,
    create_topic,
    delete_topic,
    produce,
    unique,
)
from k2k_assets_tests.support.brokers.kafka_frames import Api
from k2k_assets_tests.support.brokers.proxy import Fault, Proxy, Trouble
from k2k_assets_tests.support.brokers.raw_records import produce_raw

pytestmark = pytest.mark.integration

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
HEADERS: list[list[tuple[str, bytes | None]]] = [[], [("a", b"1"), ("a", None), ("ü", b"")], [("trace", b"x" * 300)]]


def _write(servers: str, topic: str, codec: str, count: int = 600) -> None:
    """Odd records in a few batches of one producer."""
    settings = {**client_settings(servers), "compression.type": codec, "linger.ms": 500, "batch.num.messages": 200}
    producer = Producer(settings)
    for n in range(count):
        key = (None, b"", b"k%d" % n)[n % 3]
        value = (None, b"", b"v%d" % n * (n % 50))[n % 4 % 3]
        producer.produce(topic, value, key, 0, timestamp=1 + n * 1000, headers=[*HEADERS[n % 3]])
    assert producer.flush(SECONDS) == 0


def _read(source: Source, positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> list[Chunk]:
    """All chunks up to these ends."""
    source.assign({tp: Position(at) for tp, at in positions.items()})
    chunks: list[Chunk] = []
    told: dict[TopicPartition, int] = {}
    deadline = Deadline(SECONDS)
    while told != ends:
        polled = source.poll(1000, 0.1)
        chunks += polled.chunks
        told |= polled.ends
        assert not deadline.expired(), f"the ends {ends} are not told, but {told}"
    source.close()
    return chunks


def _records(chunks: Iterable[Chunk]) -> list[tuple[Any, ...]]:
    found = []
    for chunk in chunks:
        columns = chunk.columns()
        headers = [each or [] for each in columns.headers()]
        rows = zip(columns.offsets(), columns.keys(), columns.values(), columns.timestamps(), headers, strict=True)
        found += [(chunk.source, *row) for row in rows]
    return sorted(found, key=lambda row: row[:2])


@pytest.mark.parametrize("codec", CODECS)
def test_each_codec_gives_the_records_that_librdkafka_reads(clusters: KafkaSandbox, codec: str) -> None:
    servers = clusters.source_servers
    tp = TopicPartition(create_topic(servers, unique("codec")), 0)
    _write(servers, tp.topic, codec)
    properties: dict[str, object] = {"bootstrap.servers": servers}
    batches = _read(BatchSource(properties), {tp: 0}, {tp: 600})
    records = [chunk.records for chunk in batches]
    assert all(isinstance(each, BatchRecords) for each in records)
    found = {arrived.batch.codec for each in records if isinstance(each, BatchRecords) for arrived in each.arrived}
    assert found == {CODECS.index(codec)}
    assert _records(batches) == _records(_read(LibrdkafkaSource(properties), {tp: 0}, {tp: 600}))


@pytest.mark.parametrize("version", range(fetch_messages.OLDEST, fetch_messages.NEWEST + 1))
def test_each_version_of_fetch_brings_the_same(
    clusters: KafkaSandbox, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """As with older brokers: names in the place of topic ids below 13, a replica id below 15."""
    servers = clusters.source_servers
    tp = TopicPartition(create_topic(servers, unique("version")), 0)
    produce(servers, tp.topic, [b"%d" % n for n in range(50)], 0)
    produce(servers, tp.topic, [b"aborted"] * 3, 0, abort=True)
    monkeypatch.setattr(fetch_messages, "NEWEST", version)
    chunks = _read(BatchSource({"bootstrap.servers": servers}), {tp: 7}, {tp: 54})
    assert [row[3] for row in _records(chunks)] == [b"%d" % n for n in range(7, 50)]


@pytest.mark.parametrize("timestamps", ["CreateTime", "LogAppendTime"])
def test_the_time_is_whose_the_topic_says(clusters: KafkaSandbox, timestamps: str) -> None:
    servers = clusters.source_servers
    topic = create_topic(servers, unique("time"), config={"message.timestamp.type": timestamps})
    tp = TopicPartition(topic, 0)
    _write(servers, topic, "lz4", 20)
    properties: dict[str, object] = {"bootstrap.servers": servers}
    batches = _read(BatchSource(properties), {tp: 0}, {tp: 20})
    assert _records(batches) == _records(_read(LibrdkafkaSource(properties), {tp: 0}, {tp: 20}))
    assert (batches[0].columns().timestamps()[0] == 1) == (timestamps == "CreateTime")


def test_many_partitions_with_transactions_of_all_kinds(clusters: KafkaSandbox) -> None:
    servers = clusters.source_servers
    topic = create_topic(servers, unique("many"), 12)
    for partition in range(12):
        produce(servers, topic, [b"%d" % n for n in range(partition * 10)], partition)
    for partition, abort in ((1, True), (2, False), (3, True)):
        produce(servers, topic, [b"tx"] * 5, partition, unique("tx"), abort)
    # Undecided records hide what lies behind them.
    held = OpenTransaction(servers, topic, [b"open"], 4)
    produce(servers, topic, [b"behind"], 4)
    added = {1: 6, 2: 6, 3: 6}
    ends = {TopicPartition(topic, p): p * 10 + added.get(p, 0) for p in range(12)}
    positions = {tp: min(3, end) for tp, end in ends.items()}
    properties: dict[str, object] = {"bootstrap.servers": servers}
    batches = _read(BatchSource(properties), positions, ends)
    assert _records(batches) == _records(_read(LibrdkafkaSource(properties), positions, ends))
    held.abort()


def test_answers_that_are_smaller_than_a_batch_still_bring_it(clusters: KafkaSandbox) -> None:
    servers = clusters.source_servers
    topic = create_topic(servers, unique("small"), 3)
    ends = {TopicPartition(topic, p): 30 for p in range(3)}
    for tp in ends:
        produce(servers, topic, [b"x" * 5000] * 30, tp.partition)
    tiny = {"bootstrap.servers": servers, "fetch.max.bytes": 1000, "fetch.message.max.bytes": 1000}
    chunks = _read(BatchSource(tiny, 2000), dict.fromkeys(ends, 0), ends)
    assert {tp: sum(c.count for c in chunks if c.source == tp) for tp in ends} == dict.fromkeys(ends, 30)


def test_what_is_written_while_it_waits_comes_at_once(clusters: KafkaSandbox) -> None:
    servers = clusters.source_servers
    tp = TopicPartition(create_topic(servers, unique("later")), 0)
    source = BatchSource({"bootstrap.servers": servers, "fetch.wait.max.ms": 20_000})
    source.assign({tp: Position(0)})
    for n in range(3):
        assert not source.poll(100, 0.05).chunks
        produce(servers, tp.topic, [b"%d" % n], 0)
        started = time.monotonic()
        (chunk,) = wait_until(lambda: source.poll(100, SECONDS).chunks, SECONDS, "the record")
        assert chunk.columns().values() == [b"%d" % n]
        assert time.monotonic() - started < 15  # not when the broker gives up waiting
    source.close()


def test_records_that_come_while_they_gather_are_returned_by_one_poll(clusters: KafkaSandbox) -> None:
    servers = clusters.source_servers
    tp = TopicPartition(create_topic(servers, unique("gathered")), 0)
    source = BatchSource({"bootstrap.servers": servers, "fetch.wait.max.ms": 20_000})
    source.assign({tp: Position(0)})
    source.gather(0.0)
    for n in range(3):  # one fetch each: they would be three polls
        produce(servers, tp.topic, [b"%d" % n], 0)

        def has_come(count: int = n + 1) -> bool:
            source.gather(0.05)
            return source._fetching.queued.records == count

        wait_until(has_come, SECONDS, "the record")
    (chunk,) = source.poll(100, 0).chunks
    assert chunk.columns().values() == [b"0", b"1", b"2"]
    source.close()


def test_a_header_name_that_is_not_text_is_told_with_its_record(clusters: KafkaSandbox) -> None:
    servers = clusters.source_servers
    tp = TopicPartition(create_topic(servers, unique("raw")), 0)
    produce_raw(servers, tp.topic, 0, [(b"a", []), (b"b", [(b"\xff", b"")]), (b"c", [])])
    (chunk,) = _read(BatchSource({"bootstrap.servers": servers}), {tp: 0}, {tp: 3})
    with pytest.raises(UnreadableRecord) as found:
        chunk.columns().headers()
    assert found.value.index == 1
    readable, fault = chunk.readable()
    assert readable is not None
    assert readable.columns().values() == [b"a"]
    assert fault is not None


def _stop_of(source: Source) -> StopReason:
    def stopped() -> StopReason | None:
        try:
            source.poll(100, 0.1)
        except SourceStopped as stop:
            return stop.reason
        return None

    found = wait_until(stopped, SECONDS, "the stop")
    assert found is not None
    return found


@pytest.mark.parametrize("is_back", [True, False])
def test_a_topic_that_is_deleted_stops_it_also_if_it_is_created_anew(clusters: KafkaSandbox, is_back: bool) -> None:
    """The topic id in each question tells it: the new topic has the name, and the offsets."""
    servers = clusters.source_servers
    tp = TopicPartition(create_topic(servers, unique("gone")), 0)
    produce(servers, tp.topic, [b"x"] * 10, 0)
    source = BatchSource({"bootstrap.servers": servers})
    source.assign({tp: Position(0)})
    wait_until(lambda: source.poll(100, 0.1).chunks, SECONDS, "its records")
    delete_topic(servers, tp.topic)
    if is_back:
        create_topic(servers, tp.topic)
        produce(servers, tp.topic, [b"other"] * 20, 0)
    reason = _stop_of(source)
    source.close()
    assert isinstance(reason, SourceRecreated if is_back else SourceDeleted)


def test_a_topic_that_was_never_there_is_not_created(clusters: KafkaSandbox) -> None:
    source = BatchSource({"bootstrap.servers": clusters.source_servers})
    source.assign({TopicPartition(unique("never"), 0): Position(0)})
    assert isinstance(_stop_of(source), SourceDeleted)
    source.close()


@pytest.mark.parametrize("trouble", [Trouble.CUT, Trouble.LOST, Trouble.DROPPED])
def test_after_a_broken_connection_it_goes_on_where_it_was(clusters: KafkaSandbox, trouble: Trouble) -> None:
    tp = TopicPartition(create_topic(clusters.source_servers, unique("broken")), 0)
    with Proxy(clusters.source_servers) as proxy:
        source = BatchSource({"bootstrap.servers": proxy.servers, "socket.timeout.ms": 500, "fetch.wait.max.ms": 100})
        source.assign({tp: Position(0)})
        for n in range(3):
            fault = proxy.arm(Fault(Api.FETCH, trouble))
            wait_until(lambda fault=fault: source.poll(100, 0.05) and fault.chosen.is_set(), SECONDS, "the fault")  # type: ignore[misc]
            produce(clusters.source_servers, tp.topic, [b"%d" % n], 0)
            (chunk,) = wait_until(lambda: source.poll(100, 0.1).chunks, SECONDS, "the record")
            assert (chunk.first_offset, chunk.columns().values()) == (n, [b"%d" % n])
        source.close()


def test_a_cluster_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "_METADATA_SECONDS", 0.5)
    source = BatchSource({"bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(ClusterUnreachable, match="does not answer"):
        source.assign({TopicPartition("any", 0): Position(0)})
