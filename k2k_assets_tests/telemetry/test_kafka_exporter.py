"""Metrics in a topic of the target, on real clusters."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics.export import MetricExportResult

from k2k_assets.kafka.cluster import Cluster
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.telemetry.kafka_exporter import KafkaMetricExporter
from k2k_assets_tests.support.brokers.kafka import read_all, topics, unique
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.telemetry.test_instruments import ORDERS, Metrics, commit


@pytest.mark.integration
def test_the_topic_is_made_as_the_file_says_and_holds_what_was_counted(clusters: KafkaSandbox, tmp_path: Path) -> None:
    target, topic = clusters.target_servers, unique("metrics")
    pipeline = make_pipeline(
        tmp_path, clusters.source_servers, target, ["orders"],
        metrics={"kafka": {"topic": topic}},
        topicCreation={"control": {"metrics": {"partitions": 2, "config": {"retention.ms": "3600000"}}}},
    )  # fmt: skip
    exporter, metrics = KafkaMetricExporter(pipeline), Metrics(tmp_path)
    for records in (3, 4):
        metrics.instruments.listen(commit(ORDERS, records))
        assert exporter.export(metrics.data(), 60_000) is MetricExportResult.SUCCESS
    exporter.shutdown()
    assert topics(target)[topic] == 2
    with Cluster("target", {"bootstrap.servers": target}) as cluster:
        config = cluster.topic_configs([topic], only_changed=False)[topic]
    assert (config["retention.ms"], config["cleanup.policy"]) == ("3600000", "delete")
    found = [json.loads(record.value or b"") for record in read_all(target, topic)]
    counted = [each["points"] for each in found if each["metric"] == "k2k.records"]
    assert sorted(points[0]["value"] for points in counted) == [3, 7]


@pytest.mark.integration
def test_a_topic_that_cannot_be_made_as_the_file_says_is_told(
    clusters: KafkaSandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic = unique("metrics")
    pipeline = make_pipeline(
        tmp_path, clusters.source_servers, clusters.target_servers, ["orders"],
        metrics={"kafka": {"topic": topic}}, topicCreation={"control": {"metrics": {"replication": 3}}},
    )  # fmt: skip
    with caplog.at_level(logging.WARNING):
        result = KafkaMetricExporter(pipeline).export(Metrics(tmp_path).data())
    assert result is MetricExportResult.FAILURE
    assert "INVALID_REPLICATION_FACTOR" in caplog.text
    assert topic not in topics(clusters.target_servers)


@pytest.mark.integration
def test_a_topic_that_may_not_be_made_is_told_and_no_more(
    clusters: KafkaSandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic = unique("metrics")
    features = {"autoCreateControlTopics": "disabled"}
    pipeline = make_pipeline(
        tmp_path, clusters.source_servers, clusters.target_servers, ["orders"],
        metrics={"kafka": {"topic": topic}}, features=features,
    )  # fmt: skip
    with caplog.at_level(logging.WARNING):
        result = KafkaMetricExporter(pipeline).export(Metrics(tmp_path).data())
    assert result is MetricExportResult.FAILURE
    assert f"metrics are not written: the topic for metrics, {topic}, is missing" in caplog.text
    assert topic not in topics(clusters.target_servers)


def test_a_cluster_that_is_away_takes_no_longer_than_the_export_may(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", ["orders"])
    exporter, began = KafkaMetricExporter(pipeline), time.monotonic()
    assert exporter.export(Metrics(tmp_path).data(), 1000) is MetricExportResult.FAILURE
    exporter.shutdown()
    assert time.monotonic() - began < 15
    assert "metrics are not written: the target cluster" in caplog.text
