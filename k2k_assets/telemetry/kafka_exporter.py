"""Exports metrics to a topic of the target cluster: `OTEL_METRICS_EXPORTER=kafka`."""

from __future__ import annotations

import logging
from typing import Any

from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData

from k2k_assets.control.control_topics import ensure_metrics_topic
from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import K2KError
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.plain_writer import PlainWriter
from k2k_assets.pipeline import Pipeline
from k2k_assets.telemetry.metric_records import metric_records

_log = logging.getLogger("k2k.telemetry")


class KafkaMetricExporter(MetricExporter):
    """Writes to `metrics.kafka.topic`. What cannot be written is lost, and the log says so: no copy waits for metrics.

    Args:
        pipeline: The pipeline.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__()
        self._pipeline = pipeline
        properties = pipeline.client_properties("target", "producer")
        self._writer = PlainWriter("target", properties, pipeline.metrics.kafka.topic)
        self._is_topic_there = False

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **_: Any) -> MetricExportResult:
        """Writes all metrics."""
        deadline = Deadline(timeout_millis / 1000)
        try:
            self._ensure_topic(deadline)
            self._writer.write(metric_records(metrics_data), deadline)
        except K2KError as error:
            self._is_topic_there = False
            _log.warning("metrics are not written: %s", error)
            return MetricExportResult.FAILURE
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """Nothing waits: `export` returns when all is written."""
        return True

    def shutdown(self, timeout_millis: float = 30_000, **_: Any) -> None:
        """Closes the client."""
        self._writer.close()

    def _ensure_topic(self, deadline: Deadline) -> None:
        if not self._is_topic_there:
            properties = self._pipeline.client_properties("target", "admin")
            with Cluster("target", properties, deadline.remaining()) as target:
                ensure_metrics_topic(self._pipeline, target)
            self._is_topic_there = True
