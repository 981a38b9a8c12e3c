"""Exports the metrics of a replication, or of an offset mapper, while it runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import Tracer

from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.events import Listener, to_all
from k2k_assets.replication.plan import ReportAddress
from k2k_assets.telemetry.endpoint import HealthReport
from k2k_assets.telemetry.exported_logs import ExportedLogs, exporting_logs
from k2k_assets.telemetry.health import HealthWatch
from k2k_assets.telemetry.index_ends import IndexEnds
from k2k_assets.telemetry.instruments import CopyInstruments
from k2k_assets.telemetry.lag_seconds import LagSeconds
from k2k_assets.telemetry.last_exports import LastExports
from k2k_assets.telemetry.mapper_health import MapperWatch
from k2k_assets.telemetry.mapper_instruments import MapperInstruments
from k2k_assets.telemetry.mapper_listener import MapperListener
from k2k_assets.telemetry.metering import Metering, metering, resource
from k2k_assets.telemetry.report_server import ReportListener, ReportListeners, report_server
from k2k_assets.telemetry.settings import MAPPER_PORT, REPLICATOR_PORT, TelemetrySettings
from k2k_assets.telemetry.slot_instruments import SlotInstruments
from k2k_assets.telemetry.tracing import CopySpans, PollSpans, TracedReports, tracing


class Telemetry(NamedTuple):
    """What a replication needs so that its metrics are exported.

    Attributes:
        listener: Has to hear its events.
        reports: Where its slots report to.
    """

    listener: Listener
    reports: ReportAddress


@contextmanager
def exporting(
    pipeline: Pipeline, environment: Mapping[str, str] = os.environ, waits: bool = False
) -> Iterator[Telemetry]:
    """Exports metrics of a replication while the context lasts.

    Args:
        pipeline: The pipeline.
        environment: Has the standard variables of OpenTelemetry.
        waits: Whether the endpoint waits for an address that is taken.

    Raises:
        Refused: A variable makes no sense, or the endpoint's address cannot be used.
    """
    settings = TelemetrySettings.read(environment, REPLICATOR_PORT, pipeline.metrics.prometheus.port)
    who = resource(environment, "k2k")
    watch, lag_seconds = HealthWatch(), LagSeconds(pipeline)
    with ExitStack() as stack:
        stack.callback(lag_seconds.close)  # after the last export, which asks for it
        logs, tracer, (meter, distributions) = stack.enter_context(
            _signals(pipeline, settings, watch.health, who, waits)
        )
        spans = CopySpans(tracer, pipeline) if tracer else None
        hears: list[ReportListener] = [SlotInstruments(meter, distributions, pipeline)]
        if spans:
            hears.append(TracedReports(spans))
        if logs:
            hears.append(logs)
        reports = stack.enter_context(report_server(pipeline, ReportListeners(*hears), logs is not None))
        instruments = CopyInstruments(meter, pipeline, lag_seconds.read)
        yield Telemetry(to_all(watch.listen, instruments.listen, *([spans.listen] if spans else [])), reports)


@contextmanager
def exporting_mapper(
    pipeline: Pipeline, environment: Mapping[str, str] = os.environ, waits: bool = False
) -> Iterator[MapperListener]:
    """Exports metrics of an offset mapper while the context lasts; yields what has to hear of its polls.

    Args:
        pipeline: The mapper's pipeline.
        environment: Has the standard variables of OpenTelemetry.
        waits: Whether the endpoint waits for an address that is taken.

    Raises:
        Refused: A variable makes no sense, or the endpoint's address cannot be used.
    """
    settings = TelemetrySettings.read(environment, MAPPER_PORT, pipeline.metrics.prometheus.mapper_port)
    who = resource(environment, "k2k-offset-mapping")
    watch = MapperWatch(pipeline.groups.poll_interval.total_seconds())
    with _signals(pipeline, settings, watch.health, who, waits) as (_, tracer, (meter, _)):
        instruments = MapperInstruments(meter, pipeline, IndexEnds(pipeline).read)
        yield MapperListener(watch, instruments, PollSpans(tracer, pipeline) if tracer else None)


@contextmanager
def _signals(
    pipeline: Pipeline, settings: TelemetrySettings, health: Callable[[], HealthReport], who: Resource, waits: bool
) -> Iterator[tuple[ExportedLogs | None, Tracer | None, Metering]]:
    """Logs, traces and metrics. Metrics end first: they have most of the time."""
    last = LastExports()
    with (
        exporting_logs(settings.logs, who, last) as logs,
        tracing(settings.traces, who, last) as tracer,
        metering(pipeline, settings, health, who, waits, last) as meters,
    ):
        yield logs, tracer, meters
