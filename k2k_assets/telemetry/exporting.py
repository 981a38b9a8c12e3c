"""Exports the metrics of a replication while it runs."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.events import Listener, to_all
from k2k_assets.telemetry.endpoint import endpoint
from k2k_assets.telemetry.health import HealthWatch
from k2k_assets.telemetry.instruments import CopyInstruments
from k2k_assets.telemetry.kafka_exporter import KafkaMetricExporter
from k2k_assets.telemetry.lag_seconds import LagSeconds
from k2k_assets.telemetry.settings import TelemetrySettings

_log = logging.getLogger("k2k.telemetry")

# A collector that is away may not keep an instance that ends for long.
_LAST_EXPORT_MS = 5000


@contextmanager
def exporting(pipeline: Pipeline, environment: Mapping[str, str] = os.environ) -> Iterator[Listener]:
    """Exports metrics while the context lasts; yields what has to hear the events of the replication.

    Args:
        pipeline: The pipeline.
        environment: Has the standard variables of OpenTelemetry.

    Raises:
        Refused: A variable makes no sense, or the endpoint's address cannot be used.
    """
    settings = TelemetrySettings.read(environment)
    watch = HealthWatch()
    with ExitStack() as stack:
        if "prometheus" in settings.exporters:
            address = stack.enter_context(endpoint(settings.host, settings.port, watch.health))
            _log.info("metrics are at %s/metrics, the health of this instance at /health", address)
        # Closed after the last export, which asks for it.
        lag_seconds = LagSeconds(pipeline)
        stack.callback(lag_seconds.close)
        readers = [_reader(exporter, pipeline) for exporter in settings.exporters]
        provider = MeterProvider(readers, _resource(environment), shutdown_on_exit=False)
        stack.callback(provider.shutdown, timeout_millis=_LAST_EXPORT_MS)
        instruments = CopyInstruments(provider.get_meter("k2k_assets"), pipeline, lag_seconds.read)
        yield to_all(watch.listen, instruments.listen)


def _resource(environment: Mapping[str, str]) -> Resource:
    """Named by the standard variables, else as the program."""
    named = environment.get("OTEL_SERVICE_NAME") or "service.name=" in environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
    instance = {"service.instance.id": f"{socket.gethostname()}:{os.getpid()}"}
    return Resource.create(instance if named else {**instance, "service.name": "k2k"})


def _reader(exporter: str, pipeline: Pipeline) -> MetricReader:
    match exporter:
        case "prometheus":
            from opentelemetry.exporter.prometheus import PrometheusMetricReader

            return PrometheusMetricReader()
        case "otlp":
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

            return PeriodicExportingMetricReader(OTLPMetricExporter())
        case "kafka":
            return PeriodicExportingMetricReader(KafkaMetricExporter(pipeline))
        case _:
            return PeriodicExportingMetricReader(ConsoleMetricExporter())
