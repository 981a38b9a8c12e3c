"""Two pipelines copy into one target topic: neither moves a group past records of the other that it has not read.

They share the control topics, as pipelines do by default.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.mapper import sync_once
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.groups import commit, held
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = pytest.mark.integration

RECORDS = 10
Copied = tuple[Pipeline, str]


@pytest.fixture
def copied(clusters: KafkaSandbox, tmp_path: Path) -> Callable[[str, str], Copied]:
    """A pipeline with one topic of its own, which is copied into the target topic."""
    shared = {"commit": {"topic": unique("commits")}, "assignment": {"topic": unique("claims")}}

    def one(into: str, groups: str) -> Copied:
        topic = create_topic(clusters.source_servers, unique("of"))
        produce(clusters.source_servers, topic, [b"%d" % number for number in range(RECORDS)], 0)
        pipeline = make_pipeline(
            tmp_path, clusters.source_servers, clusters.target_servers, [topic],
            name=unique("two"), coordination=shared,
            features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
            groups={"consumerGroups": groups},
            consumer={"group.id": unique("k2k")},
            sink={"static": into},
        )  # fmt: skip
        copy(pipeline)
        return pipeline, topic

    return one


def test_a_group_that_reads_both_is_moved_by_neither(
    clusters: KafkaSandbox, copied: Callable[[str, str], Copied]
) -> None:
    into, group = unique("all"), unique("readers")
    (first, unread), (second, read) = copied(into, group), copied(into, group)
    commit(clusters.source_servers, group, {TopicPartition(unread, 0): 0, TopicPartition(read, 0): RECORDS})
    for pipeline, other in ((first, second), (second, first)):
        found = sync_once(pipeline)
        (row,) = found.lines(group)
        assert row.decision.value == "unknown"
        assert other.group in found.unproven[TopicPartition(into, 0)]
    assert held(clusters.target_servers, group) == {}


def test_a_group_that_reads_one_of_them_is_moved(clusters: KafkaSandbox, copied: Callable[[str, str], Copied]) -> None:
    into, group = unique("all"), unique("readers")
    (first, topic), _ = copied(into, group), copied(into, group)
    commit(clusters.source_servers, group, {TopicPartition(topic, 0): 4})
    (row,) = sync_once(first).lines(group)
    assert row.decision.value == "exact"
    assert held(clusters.target_servers, group)[TopicPartition(into, 0)][0] == 4
