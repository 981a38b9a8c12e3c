"""Spans of sessions, commits and polls.

A slot may commit hundreds of times a second. At most `COMMITS_A_SECOND` of an instance's commits are spans, each a
trace of its own; the next one says how many were left out before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.trace import Status, StatusCode, Tracer

from k2k_assets.core.clock import SYSTEM_CLOCK, Clock
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import plural
from k2k_assets.groups.report import PollResult
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.events import Committed, Event
from k2k_assets.replication.slot_reports import Greeting, Report, SessionEnded
from k2k_assets.telemetry.last_exports import LastExports
from k2k_assets.telemetry.settings import signal_exporters

COMMITS_A_SECOND = 5
"""The most commits of an instance that are spans, in a second."""

_MS = 1_000_000


class CopySpans:
    """Makes spans of an instance's sessions and commits.

    Args:
        tracer: Makes spans.
        pipeline: The pipeline.
        clock: Monotonic seconds.
    """

    def __init__(self, tracer: Tracer, pipeline: Pipeline, clock: Clock = SYSTEM_CLOCK) -> None:
        self._tracer = tracer
        self._pipeline = pipeline.name
        self._clock = clock
        self._second, self._made, self._left_out = -1, 0, 0
        self._before: dict[TopicPartition, int] = {}

    def listen(self, event: Event) -> None:
        """Takes in an event; in the driver's thread."""
        if isinstance(event, Committed):
            self._commit(event)

    def session(self, slot: Greeting, ended: SessionEnded) -> None:
        """Takes in the end of a session."""
        span = self._tracer.start_span(
            "session",
            attributes={
                "pipeline": self._pipeline,
                "slot": slot.slot,
                "generation": slot.generation,
                "aborted": ended.aborted,
            },
            start_time=ended.began * _MS,
        )
        if ended.error:
            span.set_status(Status(StatusCode.ERROR, ended.error))
            span.set_attribute("error.type", ended.error)
        span.end(ended.ended * _MS)

    def _commit(self, event: Committed) -> None:
        second = int(self._clock.monotonic())
        if second != self._second:
            self._second, self._made = second, 0
        if self._made >= COMMITS_A_SECOND:
            self._left_out += 1
            self._before.pop(event.partition, None)
            return
        self._made += 1
        # The transaction began after the partition's commit before, if that is known; records tell no time.
        began = min(self._before.get(event.partition, event.time), event.time)
        self._before[event.partition] = event.time
        span = self._tracer.start_span(
            "commit",
            attributes={
                "pipeline": self._pipeline,
                "slot": event.slot,
                "generation": event.generation,
                "topic": event.partition.topic,
                "partition": event.partition.partition,
                "offset": event.position,
                "records": event.records,
                "bytes": event.bytes,
                "commits_left_out": self._left_out,
            },
            start_time=began * _MS,
        )
        self._left_out = 0
        span.end(event.time * _MS)


class PollSpans:
    """Makes spans of a mapper's polls.

    Args:
        tracer: Makes spans.
        pipeline: The pipeline.
        clock: The time of day.
    """

    def __init__(self, tracer: Tracer, pipeline: Pipeline, clock: Clock = SYSTEM_CLOCK) -> None:
        self._tracer = tracer
        self._pipeline = pipeline.name
        self._clock = clock

    def polled(self, result: PollResult) -> None:
        """Takes in a poll; in the mapper's thread."""
        ended = int(self._clock.time() * 1000) * _MS
        span = self._tracer.start_span(
            "poll",
            attributes={
                "pipeline": self._pipeline,
                "generation": result.version.generation,
                "groups": len(result.decisions),
                "committed": len(result.committed),
                "failed": len(result.failed),
            },
            start_time=ended - int(result.seconds * 1e9),
        )
        if result.failed:
            span.set_status(Status(StatusCode.ERROR, f"{plural(len(result.failed), 'group')} failed"))
        span.end(ended)


class TracedReports:
    """Passes reports on, and makes spans of those of sessions.

    Args:
        spans: Makes them.
    """

    def __init__(self, spans: CopySpans) -> None:
        self._spans = spans

    def arrived(self, slot: Greeting) -> None:
        """Nothing: a session is told when it ends."""

    def reported(self, slot: Greeting, report: Report) -> None:
        """A slot has reported something."""
        if isinstance(report, SessionEnded):
            self._spans.session(slot, report)

    def gone(self, slot: Greeting) -> None:
        """Nothing."""


@contextmanager
def tracing(exporters: tuple[str, ...], resource: Resource, last: LastExports | None = None) -> Iterator[Tracer | None]:
    """Exports spans while the context lasts; yields what makes them, None without exporters.

    Args:
        exporters: `TelemetrySettings.traces`.
        resource: Who exports.
        last: Ends the exporters; None: they have the time for all.
    """
    if not exporters:
        yield None
        return
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    for exporter in signal_exporters(exporters, _otlp, ConsoleSpanExporter):
        provider.add_span_processor(BatchSpanProcessor(exporter))
    try:
        yield provider.get_tracer("k2k_assets")
    finally:
        (last or LastExports()).end(provider.shutdown)


def _otlp() -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()
