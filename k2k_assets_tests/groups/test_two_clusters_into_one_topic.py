"""Two clusters are copied into one target topic, and both have a group of the same name.

Each mapper knows what the group has read on its own source, and nothing of the other one. So the first one moves the
group, and the other one leaves it alone and says why; else they would move it to and fro, poll by poll.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.failback import execute
from k2k_assets.groups.failback_view import failback_plans
from k2k_assets.groups.mapper import sync_once
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.sandbox.broker import Broker
from k2k_assets_tests.support.brokers.groups import commit, held
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def second_source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    broker = Broker("source", tmp_path_factory.mktemp("second") / "broker")
    broker.start()
    try:
        yield broker.servers
    finally:
        broker.kill()


def test_the_second_mapper_leaves_the_group_alone(clusters: KafkaSandbox, tmp_path: Path, second_source: str) -> None:
    into, group, topic = unique("all"), unique("readers"), unique("orders")
    shared = {"commit": {"topic": unique("commits")}, "assignment": {"topic": unique("claims")}}
    target = TopicPartition(into, 0)

    def copied(source: str, name: str, position: int) -> Pipeline:
        create_topic(source, topic)
        produce(source, topic, [b"%d" % n for n in range(10)], 0)
        pipeline = make_pipeline(
            tmp_path, source, clusters.target_servers, [topic],
            name=name, coordination=shared,
            features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
            groups={"consumerGroups": group},
            consumer={"group.id": unique("k2k")},
            sink={"static": into},
        )  # fmt: skip
        assert copy(pipeline).stopped == {}
        commit(source, group, {TopicPartition(topic, 0): position})
        return pipeline

    first, second = copied(clusters.source_servers, "first", 4), copied(second_source, "second", 7)
    assert sync_once(first).lines(group)[0].decision.value == "exact"
    stands = held(clusters.target_servers, group)[target]
    assert stands[0] == 4
    for _ in range(2):
        assert sync_once(second).lines(group)[0].decision.value == "another cluster"
        assert held(clusters.target_servers, group)[target] == stands
        assert sync_once(first).lines(group)[0].decision.value == "exact"
        assert held(clusters.target_servers, group)[target] == stands

    commit(clusters.target_servers, group, {target: 8})  # it has failed over, and goes back to the first source
    with both_clusters(first) as (here, there):
        assert execute(failback_plans(first, here, there), here, there, "k2k_").handed_back == [group]
    assert sync_once(second).lines(group)[0].decision.value == "another cluster"
    assert sync_once(first).lines(group)[0].decision.value == "exact"
    assert held(clusters.target_servers, group)[target][0] == 8
