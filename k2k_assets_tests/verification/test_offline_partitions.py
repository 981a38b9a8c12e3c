"""One offline partition: only questions that need it remain open, and the checks say so."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from k2k_assets.control.control_topics import control_topics
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.mapper import sync_once
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.mapping.index import update_index
from k2k_assets.orchestration.sensors.group_observation import observe_groups
from k2k_assets.orchestration.sensors.observation import observe
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.translation import OffsetTranslator
from k2k_assets.verification.groups.check import check_groups
from k2k_assets.verification.mapping_checks import CHECKS, Evidence, run_check
from k2k_assets.verification.verdict import Judgement
from k2k_assets_tests.support.brokers.groups import await_held, commit
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, unique
from k2k_assets_tests.support.brokers.second_node import TwoNodes, create_on_nodes
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = pytest.mark.integration


def _pipeline(directory: Path, source: str, target: str, topics: list[str], groups: str) -> Pipeline:
    return make_pipeline(
        directory,
        source,
        target,
        topics,
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
        index={"path": str(directory / "index")},
        groups={"consumerGroups": groups},
    )


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("side", ["source", "target"])
def test_the_groups_checks_and_sensors_of_the_others_go_on(
    clusters: KafkaSandbox, tmp_path: Path, spark: SparkSession, side: str
) -> None:
    """Partition 1 lies on the node that goes. A group stands in each partition, and one in both."""
    with TwoNodes(tmp_path / "nodes") as nodes:
        source = nodes.servers if side == "source" else clusters.source_servers
        target = clusters.target_servers if side == "source" else nodes.servers
        topic = create_on_nodes(nodes.servers, unique("split"), [1, 2])
        if side == "target":
            create_topic(source, topic, 2)
        prefix, zero, one = unique("readers"), TopicPartition(topic, 0), TopicPartition(topic, 1)
        pipeline = _pipeline(tmp_path, source, target, [topic], f"{prefix}.*")
        if side == "target":
            for name, wanted in control_topics(pipeline).items():
                create_on_nodes(target, name, [1] * (wanted.partitions or 1), wanted.config)
        for partition in range(2):
            produce(source, topic, [b"%d" % n for n in range(20)], partition)
        copy(pipeline)
        healthy, hidden, both = (f"{prefix}-{name}" for name in ("healthy", "hidden", "both"))
        for group, offsets in ((healthy, {zero: 5}), (hidden, {one: 6}), (both, {zero: 7, one: 8})):
            commit(source, group, offsets)
        with both_clusters(pipeline) as (left, right):
            index = update_index(spark, pipeline, left, right)
        nodes.down()

        result = sync_once(pipeline)
        assert not result.failed
        assert list(result.offline_partitions) == [one]
        assert f"has no leader that answers for {one}" in result.offline_partitions[one]
        words = {(g, line.partition.partition): line.decision.value for g in result.groups for line in result.lines(g)}
        # On the source the mappings answer for it; on the target nobody knows what is there.
        there_word = "exact" if side == "source" else "unknown"
        assert words == {(healthy, 0): "exact", (hidden, 1): there_word, (both, 0): "exact", (both, 1): there_word}
        await_held(target, healthy, {zero: (5, result.version.metadata("k2k_"))})

        with both_clusters(pipeline) as (left, right):
            verdicts = check_groups(pipeline, result, left, right)
            evidence = Evidence(pipeline, spark, index, left, right)
            checks = {name: run_check(name, evidence) for name in CHECKS}
        assert verdicts[healthy].passed, verdicts[healthy]
        assert verdicts[both].passed, verdicts[both]
        assert verdicts[hidden].judgement is Judgement.WARNED
        said = "has no leader" if side == "source" else "1 unknown"
        assert said in verdicts[hidden].summary
        assert {name: verdict.summary for name, verdict in checks.items() if not verdict.passed} == {}
        assert checks["content"].counts["without_leader"] == 1
        assert "1 partition has no leader and was not looked at" in checks["content"].summary

        with OffsetTranslator.open(pipeline) as translator:
            states = [
                [ask(topic, partition, [5])[0].state for partition in range(2)]
                for ask in (translator.translate, translator.translate_back)
            ]
        # Where an answer would lie in the hidden partition, its log start is not known.
        assert states == [["exact", there_word], ["exact", "unknown" if side == "source" else "exact"]]

        seen = observe(pipeline)
        assert seen.ends == {topic: [20, 20]}
        assert seen.positions == {topic: [20, 20]}
        assert seen.offline == ([one] if side == "source" else [])
        assert set(observe_groups(pipeline).found.groups) == {healthy, hidden, both}
