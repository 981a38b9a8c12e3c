"""Duplicates from an at-least-once run are no fault of the exactly-once runs before and after it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from k2k_assets.cli.tool import run as k2k_tool
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.mapping.index import update_index
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.verification.mapping_checks import Evidence, run_check
from k2k_assets.verification.verdict import Judgement
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.copying import copy, told
from k2k_assets_tests.support.copies.killed_instance import run_and_kill
from k2k_assets_tests.support.copies.pipelines import write_pipeline

pytestmark = [pytest.mark.integration, pytest.mark.spark]


@pytest.fixture
def topic(clusters: KafkaSandbox) -> str:
    return create_topic(clusters.source_servers, unique("between"))


@pytest.fixture
def path(clusters: KafkaSandbox, topic: str, tmp_path: Path) -> Path:
    return write_pipeline(
        tmp_path,
        clusters.source_servers,
        clusters.target_servers,
        [topic],
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
        index={"path": str(tmp_path / "index")},
    )


def _copy_and_die_between(clusters: KafkaSandbox, path: Path, topic: str, **changes: str) -> Pipeline:
    """Five records exactly once, and five more by a changed pipeline that is killed before it commits them."""
    once, text = load_pipeline([path]), path.read_text()
    produce(clusters.source_servers, topic, [b"%d" % n for n in range(5)], 0)
    copy(once)
    produce(clusters.source_servers, topic, [b"%d" % n for n in range(5, 10)], 0)
    for before, after in {"exactlyOnce: enabled": "exactlyOnce: disabled", **changes}.items():
        assert before in text
        text = text.replace(before, after)
    path.write_text(text)
    run_and_kill(load_pipeline([path]), at=1)
    return once


def _assert_second_copies_are_no_fault(
    clusters: KafkaSandbox, spark: SparkSession, pipeline: Pipeline, topic: str
) -> None:
    values = [record.value for record in read_all(clusters.target_servers, topic)]
    assert values == [b"%d" % n for n in (*range(5), *range(5, 10), *range(5, 10))]
    with both_clusters(pipeline) as both:
        index = update_index(spark, pipeline, *both)
        verdict = run_check("content", Evidence(pipeline, spark, index, *both))
    assert verdict.judgement is Judgement.PASSED, verdict
    assert verdict.counts["equal"] == 10


@pytest.mark.slow
def test_copies_that_a_run_at_least_once_did_not_live_to_commit_are_told_and_accepted(
    clusters: KafkaSandbox, spark: SparkSession, path: Path, topic: str
) -> None:
    once = _copy_and_die_between(clusters, path, topic)
    reason = told(copy(once))[topic]
    assert "5 records" in reason
    assert "or are copies that a run at least once did not live to commit" in reason
    assert k2k_tool(["set", "-f", str(path), "-o", f"{topic}:0:current", "--accept-foreign-records"]) == 0
    assert copy(once).stopped == {}
    _assert_second_copies_are_no_fault(clusters, spark, once, topic)


@pytest.mark.slow
def test_copies_of_a_run_that_could_not_tell_where_they_end_are_no_fault(
    clusters: KafkaSandbox, spark: SparkSession, path: Path, topic: str
) -> None:
    once = _copy_and_die_between(clusters, path, topic, **{"partition: source": "partition: producer"})
    assert copy(once).stopped == {}
    _assert_second_copies_are_no_fault(clusters, spark, once, topic)
