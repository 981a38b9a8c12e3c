"""The history of a real copy is deleted: Dagster shows the same, and the next runs continue."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.orchestration.checks.asset_checks import mappings_of
from k2k_assets.orchestration.checks.last_verdicts import failed_checks
from k2k_assets.orchestration.maintenance import history as deleting
from k2k_assets.orchestration.maintenance.history import delete_history
from k2k_assets.orchestration.maintenance.keeping import Ours
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.verification.mapping_checks import CHECKS
from k2k_assets_tests.support.brokers.groups import commit, held
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, read_all, unique
from k2k_assets_tests.support.dagster.fixture import DagsterFixture
from k2k_assets_tests.support.spark.session import spark

__all__ = ["spark"]

pytestmark = [pytest.mark.integration, pytest.mark.spark]


@pytest.mark.slow
def test_a_copy_whose_history_was_deleted_goes_on(
    clusters: KafkaSandbox, sqlite_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    monkeypatch.setenv("K2K_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(deleting, "RUNS_LOOKED_AT", 1)
    topic = unique("kept")
    group, at = f"{topic}-group", TopicPartition(topic, 0)
    create_topic(clusters.source_servers, topic, 1)
    produce(clusters.source_servers, topic, [b"%d" % n for n in range(50)])
    commit(clusters.source_servers, group, {at: 20})
    fixture = DagsterFixture(clusters, tmp_path / "pipelines", [topic], group)
    fixture.discover()
    names, ours = fixture.names, Ours([fixture.names], [fixture.names.consumer_group_key(group)])
    with dg.DagsterInstance.from_config(str(sqlite_home)) as fixture.instance:
        assert fixture.run().success
        produce(clusters.source_servers, topic, [b"more"] * 10)
        assert fixture.run().success
        before = _shown(fixture, topic, group)
        assert delete_history(fixture.instance, ours, time.time()).runs == 1
        assert _shown(fixture, topic, group) == before
        assert before["failed checks"] == []

        commit(clusters.source_servers, group, {at: 55})
        assert fixture.move(names.consumer_group_key(group)).success, "the mappings still have their good verdict"
        resumes = held(clusters.target_servers, group)[at][0]
        left = [record for record in read_all(clusters.target_servers, topic) if record.offset >= resumes]
        assert len(left) == 5, "as many as on the source"
        produce(clusters.source_servers, topic, [b"and more"] * 5)
        assert fixture.run().success
        assert fixture.metadata(names.topic_key(topic))["k2k/records"] == 5


def _shown(fixture: DagsterFixture, topic: str, group: str) -> dict[str, Any]:
    names, pipeline, clusters = fixture.names, fixture.pipeline, fixture.clusters
    ids = clusters.source.cluster_id, clusters.target.cluster_id
    mappings = mappings_of(pipeline.group, *ids, pipeline.offset_mapping.topic)
    keys = [names.topic_key(topic), names.commit_log_key, names.offset_mappings_key, names.consumer_group_key(group)]
    checks = [dg.AssetCheckKey(names.offset_mappings_key, check) for check in CHECKS]
    latest = fixture.instance.event_log_storage.get_latest_asset_check_execution_by_key(checks)
    return {
        "metadata": {key: fixture.metadata(key) for key in keys},
        "records": fixture.instance.get_asset_records(keys),
        "verdicts": {key: (record.id, record.evaluation) for key, record in latest.items()},
        "failed checks": failed_checks(fixture.instance, checks, mappings),
    }
