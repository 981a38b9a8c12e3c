"""G3 without the limits of librdkafka: whole batches carry what that client cannot hold or write."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.control.mapping_records import MOST_RUNS, MappingRecord
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import Broker, KafkaSandbox
from k2k_assets_tests.replication.stages.test_fidelity import ANY_TIME
from k2k_assets_tests.support.brokers.batches import PackedRecord, pack_batch
from k2k_assets_tests.support.brokers.kafka import create_topic, read_all, unique
from k2k_assets_tests.support.brokers.log_segments import LoggedRecord, logged_batches
from k2k_assets_tests.support.brokers.raw_records import produce_batch
from k2k_assets_tests.support.copies.copying import (
    assert_exact_mappings,
    assert_same_content,
    copy,
    mapped_offsets,
    told,
)
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = pytest.mark.integration

NONE, LZ4, ZSTD = 0, 3, 4
HEADERS: list[tuple[bytes, bytes | None]] = [
    (b"\xff\xfe", b"1"), (b"cut\0here", b"2"), (b"", b"3"), ("schlüssel".encode(), None), (b"\xff\xfe", b"\xff"),
]  # fmt: skip


def by_batches(clusters: KafkaSandbox, directory: Path, topic: str, tracing: str = "disabled", **rest: Any) -> Pipeline:
    features = {"exactlyOnce": "enabled", "offsetMapping": "enabled", "headerReplication": "enabled"}
    return make_pipeline(
        directory, clusters.source_servers, clusters.target_servers, [topic],
        features={**features, "tracingHeaders": tracing}, transport={"form": "batches"}, **rest,
    )  # fmt: skip


def write_odd(clusters: KafkaSandbox, topic: str, codec: int) -> list[LoggedRecord]:
    """Three batches of two records, whose headers librdkafka cannot hold."""
    written = [LoggedRecord(b"k", b"%d" % n, HEADERS) for n in range(6)]
    for first in range(0, 6, 2):
        records = [_packed(n, written[first + n]) for n in range(2)]
        produce_batch(clusters.source_servers, topic, 0, pack_batch(0, records, epoch=-1, attributes=codec))
    return written


def _packed(delta: int, record: LoggedRecord) -> PackedRecord:
    return PackedRecord(delta, record.key, record.value, record.headers, later=delta)


def logged(broker: Broker, topic: str) -> list[LoggedRecord]:
    return [record for batch in logged_batches(broker, topic) for record in batch.records()]


@pytest.mark.parametrize("batch_size", [5000, 1], ids=["one transaction", "many"])
@pytest.mark.parametrize("codec", [NONE, ZSTD], ids=["joined", "untouched"])
def test_header_keys_of_any_bytes(clusters: KafkaSandbox, tmp_path: Path, codec: int, batch_size: int) -> None:
    topic = create_topic(clusters.source_servers, unique("odd"), 1, ANY_TIME)
    written = write_odd(clusters, topic, codec)
    pipeline = by_batches(clusters, tmp_path, topic, coordination={"commit": {"batchSize": batch_size}})
    assert copy(pipeline).stopped == {}
    assert logged(clusters.source, topic) == logged(clusters.target, topic) == written


def test_header_keys_of_any_bytes_beside_headers_that_are_added(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = create_topic(clusters.source_servers, unique("odd"), 1, ANY_TIME)
    written = write_odd(clusters, topic, ZSTD)
    assert copy(by_batches(clusters, tmp_path, topic, tracing="enabled")).stopped == {}
    found = logged(clusters.target, topic)
    assert [record._replace(headers=record.headers[: len(HEADERS)]) for record in found] == written
    offsets = [dict(record.headers[len(HEADERS) :])[b"__k2k_offset"] for record in found]
    assert offsets == [b"%d" % n for n in range(6)]


def test_who_looks_into_headers_cannot_read_such_keys(clusters: KafkaSandbox, tmp_path: Path) -> None:
    """A rule that decodes headers stops the topic at the record, as it does where records go one by one."""
    topic = create_topic(clusters.source_servers, unique("odd"), 1, ANY_TIME)
    write_odd(clusters, topic, NONE)
    rules = [{"pattern": topic, "filter": {"header": "keep", "exists": True}}]
    outcome = copy(by_batches(clusters, tmp_path, topic, transform=rules))
    assert f"the record at {topic}-0 offset 0 has a header whose key is not UTF-8" in told(outcome)[topic]


@pytest.mark.parametrize("codec", [NONE, ZSTD], ids=["joined", "untouched"])
def test_timestamp_0(clusters: KafkaSandbox, tmp_path: Path, codec: int) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("epoch"), 1, ANY_TIME)
    records = [PackedRecord(n, b"k", b"%d" % n, later=later) for n, later in enumerate((0, 0, 1, 0))]
    produce_batch(source, topic, 0, pack_batch(0, records, epoch=-1, timestamp=0, latest=1, attributes=codec))
    pipeline = by_batches(clusters, tmp_path, topic)
    assert copy(pipeline).stopped == {}
    assert [record.timestamp for record in read_all(target, topic)] == [0, 0, 1, 0]
    assert assert_same_content(source, topic, target) == 4
    assert_exact_mappings(pipeline, source, target, topic)


@pytest.mark.slow
def test_a_batch_of_more_runs_than_a_mapping_record_holds(clusters: KafkaSandbox, tmp_path: Path) -> None:
    """In a mapping topic that was made by hand, which takes records of 1 MB; a batch is not divided."""
    count = 12 * MOST_RUNS
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("gaps"), 1, {"max.message.bytes": "4000000"})
    now = int(time.time() * 1000)
    records = [PackedRecord(n, None, b"%d" % (n % 2)) for n in range(count)]
    produce_batch(source, topic, 0, pack_batch(0, records, epoch=-1, timestamp=now, latest=now, attributes=LZ4))
    rules = [{"pattern": topic, "filter": {"value": "$", "equals": "1"}}]
    pipeline = by_batches(clusters, tmp_path, topic, transform=rules)
    mappings = create_topic(target, pipeline.offset_mapping.topic, 1, {"retention.ms": "-1", "retention.bytes": "-1"})
    assert copy(pipeline).stopped == {}
    assert {record.value for record in read_all(target, topic)} == {b"1"}
    written = [MappingRecord.parse(record.key, record.value) for record in read_all(target, mappings)]
    assert [(record.covered_from, record.covered_to) for record in written] == [
        (start, start + MOST_RUNS) for start in range(0, count, MOST_RUNS)
    ]
    assert len({record.sequence for record in written}) == 1
    mapped = mapped_offsets(pipeline, target, topic)
    assert mapped.copies == {(0, n): (0, n // 2) for n in range(1, count, 2)}
