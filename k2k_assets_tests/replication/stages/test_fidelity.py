"""G3: records arrive unchanged, byte by byte, unless the pipeline changes them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import SECONDS, Record, create_topic, produce, read_all, send, unique
from k2k_assets_tests.support.copies.copying import assert_same_content, copy
from k2k_assets_tests.support.copies.pipelines import MODES, make_pipeline

pytestmark = pytest.mark.integration

YEAR_2100 = 4_102_444_800_000
# The brokers delete records older than a week, half a minute after their start and then every five minutes.
ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1), "retention.ms": "-1"}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

ODD_RECORDS = [
    Record(None, None),
    Record(b"", b""),
    Record(None, b""),
    Record(b"", None),
    Record(b"tombstone", None),
    Record(b"\x00\xff\xfe", b"\xff\x00" * 50),
    Record("schlüssel-鍵".encode(), "wert-値-🦀".encode()),
    Record(b"h", b"none of them", []),
    Record(b"h", b"twice", [("a", b"1"), ("b", b"2"), ("a", b"1"), ("a", b"3")]),
    Record(b"h", b"null and empty", [("null", None), ("empty", b""), ("", b"no name"), ("", None)]),
    Record(b"h", b"unicode", [("ключ", "значение".encode()), ("🦀", b"\xff\x00")]),
    Record(b"h", b"many", [(f"h{i}", b"x" * i) for i in range(60)]),
    Record(b"t", b"long ago", timestamp=1),
    Record(b"t", b"far from now", timestamp=YEAR_2100),
    Record(b"t", b"no time", timestamp=-1),
]


def pipeline_for(clusters: KafkaSandbox, directory: Path, topics: list[str], mode: str, **features: str) -> Pipeline:
    flags = {"exactlyOnce": mode, "headerReplication": "enabled", "offsetMapping": "enabled", **features}
    return make_pipeline(directory, clusters.source_servers, clusters.target_servers, topics, features=flags)


def write_compressed(servers: str, topic: str, codec: str, records: list[Any]) -> None:
    client = Producer({"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 20, "log_level": 0})
    client.list_topics(timeout=SECONDS)
    send(client, topic, records, 0)


@MODES
def test_odd_records_large_records_and_all_codecs(clusters: KafkaSandbox, tmp_path: Path, mode: str) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    odd = create_topic(source, unique("odd"), 2, ANY_TIME)
    produce(source, odd, ODD_RECORDS, 0)
    produce(source, odd, ODD_RECORDS[::-1], 1, unique("tx"))
    large = create_topic(source, unique("large"), 1, {"max.message.bytes": "6000000"})
    produce(source, large, [b"before", os.urandom(5_000_000), b"between", b"\x00" * 5_000_000, b"after"])
    packed = create_topic(source, unique("packed"))
    for codec in CODECS:
        write_compressed(source, packed, codec, [(b"%d" % i, f"{codec}-{i}-".encode() * 20) for i in range(100)])

    outcome = copy(pipeline_for(clusters, tmp_path, [odd, large, packed], mode))

    assert outcome.stopped == {}
    assert [assert_same_content(source, topic, target) for topic in (odd, large, packed)] == [30, 5, 500]


def test_headers_are_dropped_and_timestamps_are_new_when_asked_for(clusters: KafkaSandbox, tmp_path: Path) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("plain"), 1, ANY_TIME)
    produce(source, topic, [Record(b"k", b"v", [("a", b"1")], 1), Record(None, None, None, 1)])
    began = int(time.time() * 1000)

    features = {"headerReplication": "disabled", "keepRecordCreationTimestamp": "disabled"}
    copy(pipeline_for(clusters, tmp_path, [topic], "enabled", **features))

    copied = read_all(target, topic)
    assert [(r.key, r.value, r.headers) for r in copied] == [(b"k", b"v", []), (None, None, [])]
    assert all(began <= r.timestamp <= time.time() * 1000 for r in copied)


def test_append_times_of_the_source_are_kept_where_the_target_lets_writers_set_them(
    clusters: KafkaSandbox, tmp_path: Path
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    kept, again = (create_topic(source, unique(n), 1, {"message.timestamp.type": "LogAppendTime"}) for n in "ka")
    create_topic(target, kept)  # CreateTime; `again` is created like its source
    began = int(time.time() * 1000)
    for topic in (kept, again):
        produce(source, topic, [Record(b"k", b"v", timestamp=1)] * 3)

    copy(pipeline_for(clusters, tmp_path, [kept, again], "enabled"))

    assert_same_content(source, kept, target)
    assert all(r.timestamp >= began for r in read_all(target, kept))
    for original, copied in zip(read_all(source, again), read_all(target, again), strict=True):
        assert original.timestamp <= copied.timestamp <= time.time() * 1000
