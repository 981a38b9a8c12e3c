"""A record beside its copy: how the copy is found, and what counts as a difference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.verification.content.record_pair import RecordPlace, ShownRecord, differences, facing, record_at
from k2k_assets_tests.support.brokers.kafka import Record, create_topic, delete_records, produce, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline

_SEEN = ShownRecord(b"k", b"v", (("h", b"1"), ("h", None)), 1000, False)


@pytest.mark.parametrize("text", ["orders:0:120", "a.b-c:12:0"])
def test_a_place_is_read_and_shown_alike(text: str) -> None:
    assert str(RecordPlace.parse(text)) == text


@pytest.mark.parametrize("text", ["", "orders", "orders:0", ":0:1", "orders:x:1", "orders:0:-1", "orders:0:"])
def test_what_is_no_place(text: str) -> None:
    with pytest.raises(ValueError, match="TOPIC:PARTITION:OFFSET"):
        RecordPlace.parse(text)


def test_what_counts_as_a_difference() -> None:
    assert differences(_SEEN, _SEEN, headers=True, timestamps=True) == []
    other = ShownRecord(None, b"", (("h", None), ("h", b"1")), 2000, False)
    assert differences(_SEEN, other, headers=True, timestamps=True) == ["key", "value", "headers", "timestamp"]
    assert differences(_SEEN, other, headers=False, timestamps=False) == ["key", "value"]
    by_broker = replace(_SEEN, timestamp=9, by_broker=True)
    assert differences(_SEEN, by_broker, headers=True, timestamps=True) == []
    assert differences(replace(_SEEN, timestamp=0), replace(_SEEN, timestamp=1), True, True) == []


@pytest.mark.integration
def test_records_of_a_real_copy(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = create_topic(clusters.source_servers, unique("pair"))
    produce(clusters.source_servers, topic, [b"gone"])
    produce(clusters.source_servers, topic, [b"aborted"], abort=True)
    record = Record(b"key", b"value", [("name", b"\xff"), ("none", None)], 1_700_000_000_000)
    produce(clusters.source_servers, topic, [record])
    features = {"exactlyOnce": "enabled", "offsetMapping": "enabled", "headerReplication": "enabled"}
    pipeline = make_pipeline(tmp_path, clusters.source_servers, clusters.target_servers, [topic], features=features)
    copy(pipeline)
    delete_records(clusters.source_servers, topic, 0, 1)
    at = TopicPartition(topic, 0)
    there = RecordPlace(at, 3)
    here = facing(pipeline, "source", there).place
    assert here is not None
    assert facing(pipeline, "target", here).place == there
    with both_clusters(pipeline) as (source, target):
        original, copied = record_at(pipeline, source, there), record_at(pipeline, target, here)
        assert original == ShownRecord(b"key", b"value", (("name", b"\xff"), ("none", None)), 1_700_000_000_000, False)
        assert copied == original
        assert record_at(pipeline, source, RecordPlace(at, 1)) is None, "it was aborted"
        with pytest.raises(Refused, match="holds offsets 1 to 3; 0 is not among them"):
            record_at(pipeline, source, RecordPlace(at, 0))
        with pytest.raises(Refused, match=r"has no partition .*-7"):
            record_at(pipeline, source, RecordPlace(TopicPartition(topic, 7), 0))
