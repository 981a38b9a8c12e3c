"""Both directions, and a third cluster that is copied to the same topic, with control topics of other names.

A commit record of the third cluster stands for its pipeline: it is written as that one writes it, to a topic that k2k
has created.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.failback_view import failback_plans
from k2k_assets.groups.mapper import sync_once
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.translation import translate_offsets
from k2k_assets_tests.support.brokers.groups import commit
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, unique
from k2k_assets_tests.support.copies.both_ways import OneWay, both_ways, interleave, settle, topic_on_both
from k2k_assets_tests.support.copies.copying import commit_records, copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = [pytest.mark.integration, pytest.mark.slow]

THIRD = "the-third-cluster"


def copied_from_a_third_cluster(way: OneWay, topic: str, directory: Path) -> str:
    """Notes on the target of a pipeline that a topic is copied to it from a third cluster; returns where."""
    other = make_pipeline(directory, way.source, way.target, [create_topic(way.source, unique("other"))])
    assert copy(other).stopped == {}
    newest = commit_records(way.pipeline, way.target)[-1]
    assert newest.source.topic == newest.target_topic == topic
    third = replace(newest, group="k2k.of.the.third", cluster=THIRD)
    produce(way.target, other.coordination.commit.topic, [(third.key_bytes(), third.value_bytes())])
    return other.coordination.commit.topic


def of_group(way: OneWay, group: str) -> Pipeline:
    path = way.path.with_name(f"{unique('groups')}.yaml")
    path.write_text(way.path.read_text() + f"groups:\n  consumerGroups: {group}\n")
    return load_pipeline([path])


@pytest.mark.parametrize("marker", ["pipeline", "cluster"])
@pytest.mark.parametrize("side", ["target", "source"])
def test_groups_are_known_only_where_the_marker_tells_the_clusters_apart(
    clusters: KafkaSandbox, tmp_path: Path, marker: str, side: str
) -> None:
    topic = topic_on_both(clusters)
    ways = forth, back = both_ways(clusters, tmp_path, [topic], marker=marker)
    interleave(ways, topic, 1)
    settle(ways)
    group, partition = unique("g"), TopicPartition(topic, 0)
    commit(forth.source, group, {partition: 4})
    pipeline = of_group(forth, group)
    known = {"exact", "may be read again"}
    assert {str(line.decision) for line in sync_once(pipeline).lines(group)} <= known

    copied_from_a_third_cluster(forth if side == "target" else back, topic, tmp_path)
    result = sync_once(pipeline)
    states = {str(line.decision) for line in result.lines(group)}
    there = {answer.state for answer in translate_offsets(pipeline, topic, 0, [4])}
    returns = {answer.state for answer in translate_offsets(pipeline, topic, 0, [4], reverse=True)}
    commit(forth.target, group, {partition: 3})
    with both_clusters(pipeline) as (source, target):
        rows = {str(plan.rows[0].decision) for plan in failback_plans(pipeline, source, target)}
        with_file = {str(plan.rows[0].decision) for plan in failback_plans(pipeline, source, target, back.pipeline)}
    if marker == "cluster":
        assert states | there | returns | rows | with_file <= known
        return
    assert states == there == returns == rows == with_file == {"unknown"}
    why = result.unproven[partition]
    assert THIRD in why
    assert "Write 'mode: cluster' in all files" in why
