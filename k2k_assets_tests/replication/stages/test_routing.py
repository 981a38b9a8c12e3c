"""Where records go: topic names, partitions, and mappings that say so exactly."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import Record, create_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.copying import assert_exact_mappings, assert_same_content, contents, copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = pytest.mark.integration

# Java's `Utils.murmur2` of Kafka's own UtilsTest.
JAVA_MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def pipeline_for(
    clusters: KafkaSandbox, directory: Path, topics: list[str], sink: Any, partition: str = "source"
) -> Pipeline:
    features = {"exactlyOnce": "enabled", "offsetMapping": "enabled", "headerReplication": "enabled"}
    return make_pipeline(
        directory,
        clusters.source_servers,
        clusters.target_servers,
        topics,
        sink=sink,
        partition=partition,
        features=features,
    )


# Recent, because the brokers delete records older than a week.
WRITTEN = int(time.time() * 1000) - 60_000


def records_with_gaps(servers: str, topic: str, partitions: int) -> None:
    for partition in range(partitions):
        for batch in range(2):
            name = f"{topic}-{partition}-{batch}-"
            records = [Record(b"k%d" % (i % 7), f"{name}{i}".encode(), timestamp=WRITTEN) for i in range(40)]
            produce(servers, topic, records, partition, unique("tx"))
            produce(servers, topic, [b"aborted"] * 3, partition, abort=True)


def test_prefix_suffix_and_mapping(clusters: KafkaSandbox, tmp_path: Path) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    first, second = create_topic(source, unique("a"), 2), create_topic(source, unique("b"))
    for topic, partitions in ((first, 2), (second, 1)):
        records_with_gaps(source, topic, partitions)

    affixed = pipeline_for(clusters, tmp_path, [first, second], {"prefix": "eu.", "suffix": ".copy"})
    assert {t.target_topic for t in copy(affixed).topics.values()} == {f"eu.{first}.copy", f"eu.{second}.copy"}
    mapping = {"staticMapping": {first: f"m-{first}", "b-.*": f"m-{second}"}}
    mapped = pipeline_for(clusters, tmp_path, [first, second], mapping)
    assert {t.target_topic for t in copy(mapped).topics.values()} == {f"m-{first}", f"m-{second}"}

    for topic, targets in ((first, (f"eu.{first}.copy", f"m-{first}")), (second, (f"eu.{second}.copy", f"m-{second}"))):
        for target_topic in targets:
            assert_same_content(source, topic, target, target_topic)
    assert_exact_mappings(affixed, source, target, first)
    assert_exact_mappings(mapped, source, target, second)


@pytest.mark.slow
def test_several_topics_into_one(clusters: KafkaSandbox, tmp_path: Path) -> None:
    """The target partition holds each source in its order, and every mapping points at the right record."""
    source, target = clusters.source_servers, clusters.target_servers
    topics = [create_topic(source, unique("part"), partitions) for partitions in (1, 3)]
    for topic, partitions in zip(topics, (1, 3), strict=True):
        records_with_gaps(source, topic, partitions)
    all_of_them = unique("all")
    pipeline = pipeline_for(clusters, tmp_path, topics, {"static": all_of_them})

    outcome = copy(pipeline)

    copied = read_all(target, all_of_them)
    assert len(copied) == sum(t.records for t in outcome.topics.values()) == 4 * 80
    for topic in topics:
        for_topic = [r for r in copied if r.value and r.value.startswith(topic.encode())]
        assert contents(for_topic) == contents(read_all(source, topic))
        assert_exact_mappings(pipeline, source, target, topic)
    again = copy(pipeline)
    assert sum(t.records for t in again.topics.values()) == 0


def test_keys_go_where_a_java_producer_would_put_them(clusters: KafkaSandbox, tmp_path: Path) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("keyed"), 2)
    create_topic(target, topic, 7)
    for partition in range(2):
        keys = [*JAVA_MURMUR2] * 5
        produce(source, topic, [Record(key, b"%d-%d" % (partition, i)) for i, key in enumerate(keys)], partition)
        produce(source, topic, [Record(None, b"%d-null-%d" % (partition, i)) for i in range(20)], partition)
    pipeline = pipeline_for(clusters, tmp_path, [topic], "source", partition="producer")

    copy(pipeline)

    copied = read_all(target, topic)
    placed = {(r.key, r.partition) for r in copied if r.key is not None}
    assert placed == {(key, (hashed & 0x7FFFFFFF) % 7) for key, hashed in JAVA_MURMUR2.items()}
    assert sorted(r.value or b"" for r in copied) == sorted(r.value or b"" for r in read_all(source, topic))
    for key in JAVA_MURMUR2:
        for partition in range(2):
            of_key = [r.value or b"" for r in copied if r.key == key]
            of_source = [value for value in of_key if value.startswith(b"%d-" % partition)]
            assert of_source == sorted(of_source, key=lambda value: int(value.split(b"-")[1]))
    assert_exact_mappings(pipeline, source, target, topic)
