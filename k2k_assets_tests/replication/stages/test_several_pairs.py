"""Several pairs of source and sink in one pipeline, on real clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.mapper import sync_once
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.groups import commit, held
from k2k_assets_tests.support.brokers.kafka import ReadRecord, Record, create_topic, produce, read_all, topics, unique
from k2k_assets_tests.support.copies.copying import assert_exact_mappings, copy, dying_first
from k2k_assets_tests.support.copies.pipelines import MODES, make_pipeline, of_small_transactions

pytestmark = pytest.mark.integration


def test_each_topic_goes_where_its_own_pair_says(clusters: KafkaSandbox, tmp_path: Path) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    region = unique("eu")
    orders, tests, refunds = f"{region}.orders", f"{region}.tests", unique("refunds")
    for topic, partitions in ((orders, 2), (tests, 1), (refunds, 1)):
        create_topic(source, topic, partitions)
        for partition in range(partitions):
            produce(source, topic, [b"%s-%d-%d" % (topic.encode(), partition, n) for n in range(20)], partition)
    group = unique("readers")
    pipeline = make_pipeline(
        tmp_path, source, target, ".*",
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled"}, groups={"consumerGroups": [group]},
        replication=[
            {"source": {"topic": f"{region}[.].*", "exclude": [tests]}},
            {"sink": {"topic": {"prefix": "copy."}, "partition": "source"}},
            {"source": {"topic": [refunds], "start": None}},
            {"sink": {"topic": {"static": f"{refunds}-copy"}, "partition": "source"}},
        ],
    )  # fmt: skip

    outcome = copy(pipeline)
    assert outcome.stopped == {}
    assert outcome.topics.keys() == {orders, refunds}
    for topic, copied in ((orders, f"copy.{orders}"), (refunds, f"{refunds}-copy")):
        assert [r.value for r in read_all(target, copied)] == [r.value for r in read_all(source, topic)]
        assert_exact_mappings(pipeline, source, target, topic)

    commit(source, group, {TopicPartition(orders, 1): 7, TopicPartition(refunds, 0): 20, TopicPartition(tests, 0): 3})
    sync_once(pipeline)
    found = {tp: offset for tp, (offset, _) in held(target, group).items()}
    assert found[TopicPartition(f"copy.{orders}", 1)] == 7
    assert found.keys() == {TopicPartition(f"copy.{orders}", 1), TopicPartition(f"{refunds}-copy", 0)}


@MODES
def test_each_pair_has_its_own_partitions_and_its_own_start(clusters: KafkaSandbox, tmp_path: Path, mode: str) -> None:
    """One keeps partitions and begins at an offset, one spreads by key into fewer; it is killed, and groups go on."""
    source, target = clusters.source_servers, clusters.target_servers
    kept, spread, later = (unique(name) for name in ("kept", "spread", "later"))
    create_topic(source, kept, 3)
    create_topic(source, spread, 3)
    create_topic(target, spread, 2)
    create_topic(source, later, 2)
    create_topic(target, kept, 2)  # grows for the pair that keeps partitions, while `spread` does not
    for topic in (kept, spread, later):
        for partition in range(2):
            records = [Record(key=b"%d" % n, value=b"%s-%d-%d" % (topic.encode(), partition, n)) for n in range(30)]
            produce(source, topic, records, partition)
    group = unique("readers")
    pipeline = make_pipeline(
        tmp_path, source, target, ".*",
        features={"exactlyOnce": mode, "offsetMapping": "enabled", "autoCreateTopics": "enabled"},
        groups={"consumerGroups": [group]},
        replication=[
            {"source": {"topic": [kept], "start": {kept: {0: 10}}}},
            {"sink": {"topic": "source", "partition": "source"}},
            {"source": {"topic": f"{spread}.*"}},
            {"sink": {"topic": "source", "partition": "producer"}},
            {"source": {"topic": [later], "start": "latest"}},
            {"sink": {"topic": "source", "partition": "source"}},
        ],
        **of_small_transactions(20),
    )  # fmt: skip
    outcome = copy(pipeline, cores=1, runner=dying_first("commit", 3))
    assert outcome.stopped == {}
    produce(source, later, [b"younger"], 1)
    assert copy(pipeline).stopped == {}

    there = {topic: read_all(target, topic) for topic in (kept, spread, later)}
    once = {topic: {(r.partition, r.value) for r in found} for topic, found in there.items()}
    assert once[kept] == {(r.partition, r.value) for r in read_all(source, kept) if r.partition or r.offset >= 10}
    assert sorted(v or b"" for _, v in once[spread]) == sorted(r.value or b"" for r in read_all(source, spread))
    by_key = {key: {r.partition for r in there[spread] if r.key == key} for key in {r.key for r in there[spread]}}
    assert all(len(partitions) == 1 for partitions in by_key.values())
    assert {p for partitions in by_key.values() for p in partitions} == {0, 1}
    assert once[later] == {(1, b"younger")}
    if mode == "enabled":
        assert all(len(found) == len(once[topic]) for topic, found in there.items())
    assert (topics(target)[kept], topics(target)[spread]) == (3, 2)

    # A group that has read half of each partition of the spread topic continues at the first copy that it has not read.
    commit(source, group, {TopicPartition(kept, 1): 7, TopicPartition(spread, 0): 15, TopicPartition(spread, 1): 15})
    sync_once(pipeline)
    found = {tp: offset for tp, (offset, _) in held(target, group).items()}
    assert {tp.topic for tp in found} == {kept, spread}
    for topic, partition, read in ((kept, 1, 7), (spread, 0, 15), (spread, 1, 15)):
        copies = {r.offset: number(r) for r in there[topic] if r.partition == partition}
        at = found[TopicPartition(topic, partition)]
        unread = {n for n in copies.values() if n >= read}
        assert {n for offset, n in copies.items() if offset >= at} >= unread, "nothing is skipped"
        if mode == "enabled":
            assert at == min(offset for offset, n in copies.items() if n in unread)


def number(record: ReadRecord) -> int:
    """Its number in its source partition."""
    return int((record.value or b"").rpartition(b"-")[2])


def test_a_topic_that_two_patterns_select_is_not_copied_and_holds_up_no_others(
    clusters: KafkaSandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    twice = create_topic(source, unique("twice"))
    once = create_topic(source, f"{twice[:-1]}-once")
    for topic in (twice, once):
        produce(source, topic, [b"x"])
    sink = {"sink": {"topic": "source", "partition": "source"}}
    patterns = (f"{twice}.*", f"{twice[:-1]}.*", f"{unique('absent')}.*")
    stages = [stage for pattern in patterns for stage in ({"source": {"topic": pattern}}, sink)]
    pipeline = make_pipeline(tmp_path, source, target, ".*", replication=stages)
    assert copy(pipeline).stopped == {}
    assert [record.value for record in read_all(target, once)] == [b"x"]
    assert twice not in topics(target)
    assert f"the topic '{twice}' is selected twice" in caplog.text
    assert f"matches the pattern '{patterns[2]}'" in caplog.text

    # Some topics are asked for, as by Dagster, and by `k2k-tool set`.
    assert copy(pipeline, topics=[once]).stopped == {}
    with pytest.raises(Refused, match=f"the topic '{twice}' is selected twice"):
        copy(pipeline, topics=[twice])
