"""Ranges that were skipped by hand: the index keeps them, the content check shows them, and they are no fault."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from k2k_assets.cli.tool import run as k2k_tool
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.mapper import sync_once
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.mapping.index import update_index
from k2k_assets.orchestration.assets.groups.group_sync import limited_to
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.verification.groups.check import check_groups
from k2k_assets.verification.mapping_checks import Evidence, run_check
from k2k_assets.verification.verdict import Judgement, Verdict
from k2k_assets_tests.support.brokers.groups import commit
from k2k_assets_tests.support.brokers.kafka import Record, create_topic, produce, read_all, unique
from k2k_assets_tests.support.brokers.log_segments import damage, logged_batches
from k2k_assets_tests.support.copies.copying import copy, told
from k2k_assets_tests.support.copies.pipelines import mapping_pipeline

pytestmark = [pytest.mark.integration, pytest.mark.spark]


def _content(pipeline: Pipeline, spark: SparkSession) -> Verdict:
    with both_clusters(pipeline) as (source, target):
        index = update_index(spark, pipeline, source, target)
        return run_check("content", Evidence(pipeline, spark, index, source, target))


def _of_group(pipeline: Pipeline, group: str) -> Verdict:
    result = sync_once(limited_to(pipeline, [group]))
    with both_clusters(pipeline) as (source, target):
        return check_groups(pipeline, result, source, target)[group]


@pytest.mark.slow
def test_a_range_that_was_skipped_by_hand_is_shown_and_no_fault(
    clusters: KafkaSandbox, tmp_path: Path, spark: SparkSession
) -> None:
    topic = create_topic(clusters.source_servers, unique("skipped"))
    path, pipeline = mapping_pipeline(tmp_path, clusters.source_servers, clusters.target_servers, [topic])
    produce(clusters.source_servers, topic, [b"%d" % n for n in range(10)], 0)
    copy(pipeline)
    produce(clusters.source_servers, topic, [b"%d" % n for n in range(10, 20)], 0)
    assert k2k_tool(["set", "-f", str(path), "-o", f"{topic}:0:15"]) == 0
    copy(pipeline)

    group, standing = unique("readers"), TopicPartition(topic, 0)
    commit(clusters.source_servers, group, {standing: 8})
    for _ in range(2):  # in one segment, and together with the second one
        verdict = _content(pipeline, spark)
        assert verdict.judgement is Judgement.PASSED, verdict
        assert verdict.counts["skipped_by_hand"] == 5
        assert f"skipped by hand: {topic}-0 from 10 to 14" in verdict.summary
        of_group = _of_group(pipeline, group)
        assert of_group.judgement is Judgement.PASSED, of_group
        assert of_group.counts["skipped_by_hand"] == 5
        produce(clusters.source_servers, topic, [b"more"], 0)
        copy(pipeline)

    produce(clusters.target_servers, topic, [b"of a stranger"], 0)
    produce(clusters.source_servers, topic, [b"20"], 0)
    # After a reset the skipped range is copied after all, so it is no exception any more.
    assert k2k_tool(["set", "-f", str(path), "-o", f"{topic}:0:10", "--accept-foreign-records"]) == 0
    copy(pipeline)
    verdict = _content(pipeline, spark)
    assert verdict.counts["skipped_by_hand"] == 0
    assert "skipped" not in verdict.summary


def test_former_copies_from_a_position_on_that_replaces_a_lost_one_are_no_fault(
    clusters: KafkaSandbox, tmp_path: Path, spark: SparkSession
) -> None:
    topic = create_topic(clusters.source_servers, unique("lost"))
    servers = clusters.source_servers, clusters.target_servers
    ignored = {"onControlMessageDeserializationError": "ignore"}
    path, pipeline = mapping_pipeline(tmp_path, *servers, [topic], errorHandling=ignored)
    produce(clusters.source_servers, topic, [b"%d" % n for n in range(10)], 0)
    copy(pipeline)
    commits = pipeline.coordination.commit.topic
    (known,) = {(r.key, r.partition) for r in read_all(clusters.target_servers, commits)}
    produce(clusters.target_servers, commits, [Record(known[0], b"no JSON", partition=known[1])])
    assert "is not JSON" in told(copy(pipeline))[topic]
    assert k2k_tool(["set", "-f", str(path), "-o", f"{topic}:0:5"]) == 0
    copy(pipeline)
    verdict = _content(pipeline, spark)
    assert verdict.judgement is Judgement.PASSED, verdict
    assert verdict.counts["equal"] == 10


@pytest.mark.slow
def test_a_damaged_batch_that_was_skipped_by_hand_holds_neither_the_content_check_nor_groups_back(
    clusters: KafkaSandbox, tmp_path: Path, spark: SparkSession
) -> None:
    topic = create_topic(clusters.source_servers, unique("damaged"), config={"compression.type": "lz4"})
    path, pipeline = mapping_pipeline(tmp_path, clusters.source_servers, clusters.target_servers, [topic])
    for first in range(0, 100, 10):
        produce(clusters.source_servers, topic, [b"%d " % n + b"x" * 100 for n in range(first, first + 10)], 0)
    bases = [batch.base for batch in logged_batches(clusters.source, topic)]
    base = next(each for each in bases if each >= 50)
    behind = next(each for each in bases if each > base)
    damage(clusters.source, topic, base, checksum_fits=True)
    assert "cannot be read" in told(copy(pipeline))[topic]
    assert k2k_tool(["set", "-f", str(path), "-o", f"{topic}:0:{behind}"]) == 0
    copy(pipeline)

    verdict = _content(pipeline, spark)
    assert verdict.judgement is Judgement.PASSED, verdict
    assert verdict.counts["equal"] == 100 - (behind - base)
    assert verdict.counts["skipped_by_hand"] == behind - base
    group = unique("readers")
    commit(clusters.source_servers, group, {TopicPartition(topic, 0): base - 5})
    of_group = _of_group(pipeline, group)
    assert of_group.judgement is Judgement.PASSED, of_group
