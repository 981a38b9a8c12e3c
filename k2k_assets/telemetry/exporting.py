"""Exports the metrics of a replication, or of an offset mapper, while it runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.events import Listener, to_all
from k2k_assets.replication.plan import ReportAddress
from k2k_assets.telemetry.health import HealthWatch
from k2k_assets.telemetry.index_ends import IndexEnds
from k2k_assets.telemetry.instruments import CopyInstruments
from k2k_assets.telemetry.lag_seconds import LagSeconds
from k2k_assets.telemetry.mapper_health import MapperWatch
from k2k_assets.telemetry.mapper_instruments import MapperInstruments
from k2k_assets.telemetry.mapper_listener import MapperListener
from k2k_assets.telemetry.metering import metering
from k2k_assets.telemetry.report_server import report_server
from k2k_assets.telemetry.settings import MAPPER_PORT, REPLICATOR_PORT, TelemetrySettings
from k2k_assets.telemetry.slot_instruments import SlotInstruments


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
    watch, lag_seconds = HealthWatch(), LagSeconds(pipeline)
    try:
        with metering(pipeline, settings, watch.health, environment, "k2k", waits) as meter:
            instruments = CopyInstruments(meter, pipeline, lag_seconds.read)
            with report_server(pipeline, SlotInstruments(meter, pipeline)) as reports:
                yield Telemetry(to_all(watch.listen, instruments.listen), reports)
    finally:
        lag_seconds.close()  # after the last export, which asks for it


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
    watch = MapperWatch(pipeline.groups.poll_interval.total_seconds())
    with metering(pipeline, settings, watch.health, environment, "k2k-offset-mapping", waits) as meter:
        yield MapperListener(watch, MapperInstruments(meter, pipeline, IndexEnds(pipeline).read))
