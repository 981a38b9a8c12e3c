"""A topic that the pattern selects and the static mapping lacks: the others are copied, checked and moved."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.mapping.index import update_index
from k2k_assets.orchestration.sensors.group_observation import observe_groups
from k2k_assets.orchestration.sensors.observation import observe
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.verification.mapping_checks import CHECKS, Evidence, run_check
from k2k_assets_tests.support.brokers.groups import commit
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import write_pipeline

pytestmark = [pytest.mark.integration, pytest.mark.spark]


@pytest.mark.slow
def test_one_topic_without_a_target_stops_no_others(
    clusters: KafkaSandbox, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("K2K_HOME", str(tmp_path / "home"))
    prefix = unique("routed")
    routed, other, new, group = (f"{prefix}-{name}" for name in ("a", "b", "new", "readers"))
    path = write_pipeline(
        tmp_path,
        clusters.source_servers,
        clusters.target_servers,
        f"{prefix}-.*",
        sink={"staticMapping": {routed: f"copy.{routed}", other: f"copy.{other}"}},
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
        groups={"consumerGroups": [group]},
        index={"path": str(tmp_path / "index")},
    )
    for topic in (routed, other):
        create_topic(clusters.source_servers, topic)
        produce(clusters.source_servers, topic, [b"%d" % n for n in range(5)], 0)
    copy(load_pipeline([path]))
    commit(clusters.source_servers, group, {TopicPartition(routed, 0): 3})

    # A copied topic is removed from the mapping, and a topic appears that was never in it.
    document = yaml.safe_load(path.read_text())
    document["replication"][1]["sink"]["topic"]["staticMapping"] = {routed: f"copy.{routed}"}
    path.write_text(yaml.safe_dump(document))
    pipeline = load_pipeline([path])
    create_topic(clusters.source_servers, new)
    produce(clusters.source_servers, routed, [b"5"], 0)
    copy(pipeline, topics={routed})

    seen = observe(pipeline)
    assert set(seen.found.topics) == {routed, other, new}
    assert (seen.ends, seen.positions) == ({routed: [6]}, {routed: [6]})
    assert set(observe_groups(pipeline).found.groups) == {group}
    with both_clusters(pipeline) as (source, target):
        evidence = Evidence(pipeline, spark, update_index(spark, pipeline, source, target), source, target)
        verdicts = {name: run_check(name, evidence) for name in CHECKS}
    assert {name: verdict.summary for name, verdict in verdicts.items() if not verdict.passed} == {}
