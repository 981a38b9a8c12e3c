"""What the checks say on two real clusters of what they did not compare, or could not."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.verification.mapping_checks import CHECKS
from k2k_assets.verification.verdict import Judgement
from k2k_assets_tests.support.brokers.kafka import (
    OpenTransaction,
    add_partitions,
    delete_records,
    delete_topic,
    produce,
    unique,
)
from k2k_assets_tests.verification.world import RECORDS, World, worlds

pytestmark = [pytest.mark.integration, pytest.mark.spark]


def test_what_cannot_be_compared_in_time_is_left_for_the_next_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("k2k_assets.verification.content.check.SECONDS", 0.0)
    monkeypatch.setattr("k2k_assets.verification.content.comparison._PIECES_PER_ROUND", 1)
    for servers in (world.clusters.source_servers, world.clusters.target_servers):
        add_partitions(servers, world.topic, 2)
        produce(servers, world.topic, RECORDS, partition=1)
    world.source()
    world.target()
    world.mapped((0, 0, 10))
    world.hand.mapping(world.topic, (0, 10), [(0, 0, 10)], partition=1)
    verdict = world.verdict("content")
    assert verdict.passed
    assert (verdict.counts["equal"], verdict.counts["partitions"], verdict.counts["not_looked_at"]) == (10, 1, 1)
    assert "1 of 2 partitions were not looked at this time" in verdict.summary


def test_where_nothing_is_left_that_could_be_compared_there_is_a_doubt(
    clusters: KafkaSandbox, spark: SparkSession, tmp_path: Path
) -> None:
    made = worlds(clusters, spark, tmp_path, ["expired-source", "expired-target", "deleted-target"])
    for world in made:
        world.source()
        world.target()
        world.mapped((0, 0, 10))
    delete_records(clusters.source_servers, made[0].topic, 0, 10)
    delete_records(clusters.target_servers, made[1].topic, 0, 10)
    delete_topic(clusters.target_servers, made[2].topic)
    verdict = made[0].verdict("content")
    assert verdict.judgement is Judgement.WARNED
    assert "nothing could be compared" in verdict.summary


def test_what_is_copied_uncommitted_is_compared_uncommitted(
    clusters: KafkaSandbox, spark: SparkSession, tmp_path: Path
) -> None:
    """At least once a source may be read uncommitted: what a transaction holds open there is no fault of the copy."""
    consumer = {"group.id": unique("uncommitted"), "isolation.level": "read_uncommitted"}
    (world,) = worlds(clusters, spark, tmp_path, ["orders"], consumer=consumer)
    world.source(RECORDS[:6])
    world.target()
    held_open = OpenTransaction(clusters.source_servers, world.topic, RECORDS[6:])
    world.mapped((0, 0, 10))
    verdict = world.verdict("content")
    held_open.commit()
    assert verdict.judgement is Judgement.PASSED, verdict
    assert verdict.counts["equal"] == 10


def test_the_first_run_of_a_pipeline_without_data_passes(world: World) -> None:
    verdicts = world.verdicts(*CHECKS)
    assert {name: v.summary for name, v in verdicts.items() if not v.passed} == {}
