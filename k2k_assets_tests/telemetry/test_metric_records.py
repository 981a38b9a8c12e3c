"""Metrics as records of a topic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.driver.events import GenerationStarted, ProgressRead
from k2k_assets.replication.driver.progress import PartitionProgress, Progress
from k2k_assets.telemetry.metric_records import metric_records
from k2k_assets_tests.telemetry.test_instruments import ORDERS, RETURNS, Metrics, commit


def test_a_record_for_each_metric_and_topic(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path)
    more = TopicPartition(ORDERS.topic, 1)
    for event in (
        commit(ORDERS, 3),
        commit(more, 4),
        commit(RETURNS, 1),
        GenerationStarted(7, 3, 2),
        ProgressRead(Progress({ORDERS: PartitionProgress(5, 9, 9), more: PartitionProgress(9, 9, 9)}, 0.0)),
    ):
        metrics.instruments.listen(event)
    name = metrics.pipeline.name
    records: dict[str, Any] = {key.decode(): json.loads(value) for key, value in metric_records(metrics.data())}
    counted = records[f"{name} k2k.records orders"]
    assert counted.pop("time") > 10**12, "milliseconds since the epoch"
    assert counted.pop("instance"), "the resource names it"
    assert counted == {
        "pipeline": name,
        "metric": "k2k.records",
        "kind": "counter",
        "unit": "{record}",
        "topic": "orders",
        "points": [{"partition": 0, "value": 3}, {"partition": 1, "value": 4}],
    }
    assert records[f"{name} k2k.records returns"]["points"] == [{"partition": 1, "value": 1}]
    assert records[f"{name} k2k.lag orders"]["kind"] == "gauge"
    generation = records[f"{name} k2k.generation"]
    assert "topic" not in generation
    assert generation["points"] == [{"value": 7}]
