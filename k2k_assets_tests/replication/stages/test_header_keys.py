"""G3 and G7: header keys that librdkafka cannot hold. A broker takes any bytes; that client makes text of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.replication.stages.test_fidelity import pipeline_for
from k2k_assets_tests.support.brokers.kafka import SECONDS, create_topic, produce, read_all, unique
from k2k_assets_tests.support.brokers.raw_records import produce_raw
from k2k_assets_tests.support.copies.copying import Running, assert_same_content, copy
from k2k_assets_tests.support.copies.pipelines import MODES

pytestmark = pytest.mark.integration

NOT_UTF8 = [(b"good", b"1"), (b"\xff\xfe", b"2"), (b"behind", None)]


@pytest.mark.slow
@pytest.mark.librdkafka
@MODES
def test_a_header_key_that_is_not_utf8_stops_its_topic(clusters: KafkaSandbox, tmp_path: Path, mode: str) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    bad, good = (create_topic(source, unique(name), 2) for name in ("bad", "good"))
    for topic in (bad, good):
        produce(source, topic, [b"%d" % i for i in range(5)], 0)
    running = Running(pipeline_for(clusters, tmp_path, [bad, good], mode), 1)
    running.await_copied(10)

    before = [(b"%d" % i, [(b"a", b"1")]) for i in range(20)]
    offset = produce_raw(source, bad, 1, [*before, (b"odd", NOT_UTF8), (b"odd too", NOT_UTF8), (b"after", [])]) + 20

    words = wait_until(lambda: running.told(TopicPartition(bad, 1)), SECONDS, "the topic to be stopped") or ""
    assert f"the record at {bad}-1 offset {offset} has a header whose key is not UTF-8 (b'\\xff\\xfe')" in words
    assert "features.headerReplication: disabled" in words
    assert f"k2k-tool set -f FILE -o {bad}:1:{offset + 1}" in words
    produce(source, good, [b"more"] * 5, 1)
    wait_until(lambda: len(read_all(target, good)) == 10, SECONDS, "the other topic to go on")
    running.end()
    assert_same_content(source, good, target)
    assert len(read_all(target, bad, 0)) == 5
    assert [(r.value, r.headers) for r in read_all(target, bad, 1)] == [(b"%d" % i, [("a", b"1")]) for i in range(20)]
    assert running.positions()[TopicPartition(bad, 1)] == offset, "all before the record is copied and committed"


def test_without_headers_such_records_are_copied(clusters: KafkaSandbox, tmp_path: Path) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("odd"))
    produce_raw(source, topic, 0, [(b"a", NOT_UTF8), (b"b", []), (b"c", NOT_UTF8)])
    outcome = copy(pipeline_for(clusters, tmp_path, [topic], "enabled", headerReplication="disabled"))
    assert outcome.stopped == {}
    assert [(r.value, r.headers) for r in read_all(target, topic)] == [(b"a", []), (b"b", []), (b"c", [])]


@pytest.mark.librdkafka
def test_a_header_key_ends_at_a_nul_byte_and_may_be_empty(clusters: KafkaSandbox, tmp_path: Path) -> None:
    """The first is a limit that the client sets: it hands out no more of the key. The second arrives as it was."""
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("odd"))
    headers = [(b"cut\0here", b"1"), (b"", b"2"), (b"", None), ("schlüssel".encode(), b"\0\xff")]
    produce_raw(source, topic, 0, [(b"v", headers)])
    assert copy(pipeline_for(clusters, tmp_path, [topic], "enabled")).stopped == {}
    assert [r.headers for r in read_all(target, topic)] == [
        [("cut", b"1"), ("", b"2"), ("", None), ("schlüssel", b"\0\xff")]
    ]
