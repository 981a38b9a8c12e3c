"""Makes the meter of a program, with the exporters that the environment names and the endpoint for its health."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import View
from opentelemetry.sdk.resources import Resource
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from k2k_assets.core.this_process import this_process
from k2k_assets.pipeline import Pipeline
from k2k_assets.telemetry.distributions import Distributions, ReadsDistributions
from k2k_assets.telemetry.endpoint import HealthReport, endpoint
from k2k_assets.telemetry.kafka_exporter import KafkaMetricExporter
from k2k_assets.telemetry.last_exports import LastExports
from k2k_assets.telemetry.settings import TelemetrySettings

_log = logging.getLogger("k2k.telemetry")

ALL_SERIES = View(instrument_name="*", aggregation_cardinality_limit=1_000_000)
"""Keeps each label set: the SDK puts all but 2000 of an instrument into one, and pipelines have more partitions."""


class Metering(NamedTuple):
    """Makes instruments.

    Attributes:
        meter: Makes those of the SDK.
        distributions: Make histograms of values that are counted already.
    """

    meter: Meter
    distributions: Distributions


class _PeriodicReader(ReadsDistributions, PeriodicExportingMetricReader):
    pass


@contextmanager
def metering(
    pipeline: Pipeline,
    settings: TelemetrySettings,
    health: Callable[[], HealthReport],
    who: Resource,
    waits: bool = False,
    last: LastExports | None = None,
) -> Iterator[Metering]:
    """Exports while the context lasts; yields what makes instruments.

    Args:
        pipeline: The pipeline.
        settings: Where metrics go.
        health: Tells the health of the program.
        who: Who exports.
        waits: Whether the endpoint waits for an address that is taken.
        last: Ends the exporters; None: they have the time for all.

    Raises:
        Refused: The endpoint's address cannot be used.
    """
    # One of its own: a process may have several instances, such as runs of Dagster.
    registry = CollectorRegistry()
    with ExitStack() as stack:
        if "prometheus" in settings.exporters:
            for collector in (ProcessCollector, PlatformCollector, GCCollector):
                collector(registry=registry)
            address = stack.enter_context(endpoint(settings.host, settings.port, health, registry, waits))
            _log.info("metrics are at %s/metrics, the health of this instance at /health", address)
        distributions = Distributions()
        readers = [_reader(exporter, pipeline, registry) for exporter in settings.exporters]
        for reader in readers:
            reader.distributions = distributions
        provider = MeterProvider(readers, who, shutdown_on_exit=False, views=[ALL_SERIES])
        stack.callback((last or LastExports()).end, provider.shutdown)
        yield Metering(provider.get_meter("k2k_assets"), distributions)


def resource(environment: Mapping[str, str], program: str) -> Resource:
    """Who exports: named by the standard variables, else as the program.

    Args:
        environment: Has the standard variables of OpenTelemetry.
        program: Name of the program.
    """
    named = environment.get("OTEL_SERVICE_NAME") or "service.name=" in environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
    instance = {"service.instance.id": this_process()}
    return Resource.create(instance if named else {**instance, "service.name": program})


def _reader(exporter: str, pipeline: Pipeline, registry: CollectorRegistry) -> ReadsDistributions:
    match exporter:
        case "prometheus":
            from opentelemetry.exporter.prometheus import PrometheusMetricReader

            class Scraped(ReadsDistributions, PrometheusMetricReader):
                pass

            return Scraped(registry=registry)
        case "otlp":
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

            return _PeriodicReader(OTLPMetricExporter())
        case "kafka":
            return _PeriodicReader(KafkaMetricExporter(pipeline))
        case _:
            return _PeriodicReader(ConsoleMetricExporter())
