"""A pipeline got another `group.id`, and copies all again; a mapper with a file of its own knows neither."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.mapper_file import load_mapper_pipeline
from k2k_assets.groups.poller import Poller
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.groups import commit, held
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = pytest.mark.integration


def test_a_mapper_that_runs_goes_over_to_the_new_copies(clusters: KafkaSandbox, tmp_path: Path) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic, group, mappings = create_topic(source, unique("orders")), unique("readers"), unique("mappings")
    control = {"commit": {"topic": unique("commits")}, "assignment": {"topic": unique("claims")}}
    at = TopicPartition(topic, 0)

    def copied(name: str) -> None:
        pipeline = make_pipeline(
            tmp_path, source, target, [topic],
            coordination=control,
            features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
            consumer={"group.id": name},
            offsetMapping={"topic": mappings},
            errorHandling={"onForeignWriter": "ignore"},
        )  # fmt: skip
        assert copy(pipeline).stopped == {}

    produce(source, topic, [b"%d" % n for n in range(10)], 0)
    copied("before")
    commit(source, group, {at: 7})
    alone = tmp_path / "mapper.yaml"
    alone.write_text(
        yaml.safe_dump(
            {
                "name": unique("mapper"),
                "coordination": control,
                "offsetMapping": {"topic": mappings},
                "groups": {"consumerGroups": group},
                "errorHandling": {"onMultipleTargetCommittedOffsets": "ignore"},
                "source": {"kafka": {"common": {"bootstrap.servers": source}}},
                "target": {"kafka": {"common": {"bootstrap.servers": target}}},
            }
        )
    )
    pipeline = load_mapper_pipeline([alone])
    with both_clusters(pipeline) as (here, there), Poller(pipeline, here, there) as poller:
        poller.start()
        moved = poller.poll()
        poller.await_visible(moved)
        assert moved.lines(group)[0].decision.value == "exact"
        assert held(target, group)[at][0] == 7
        copied("after")
        produce(source, topic, [b"%d" % n for n in range(10, 15)], 0)
        copied("after")
        commit(source, group, {at: 12})
        moved = poller.poll()
        poller.await_visible(moved)
        assert moved.lines(group)[0].decision.value == "exact"
        # Ten copies and their marker, ten again with theirs, and the eleventh and twelfth record.
        assert held(target, group)[at][0] == 24
