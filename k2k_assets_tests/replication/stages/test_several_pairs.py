"""Several pairs of source and sink in one pipeline, on real clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.mapper import sync_once
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.groups import commit, held
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.copying import assert_exact_mappings, copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline

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


def test_a_topic_that_two_patterns_select_is_refused_before_anything_is_copied(
    clusters: KafkaSandbox, tmp_path: Path
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("twice"))
    produce(source, topic, [b"x"])
    sink = {"sink": {"topic": "source", "partition": "source"}}
    stages = [{"source": {"topic": f"{topic}.*"}}, sink, {"source": {"topic": f"{topic[:-1]}.*"}}, sink]
    pipeline = make_pipeline(tmp_path, source, target, ".*", replication=stages)
    with pytest.raises(Refused, match=f"the topics {topic} are selected twice: by two sources of the pipeline"):
        copy(pipeline)
    assert read_all(target, topic) == []
