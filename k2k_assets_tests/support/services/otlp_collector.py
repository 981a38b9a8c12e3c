"""A collector that takes metrics, traces and logs by OTLP over HTTP, and keeps them."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from k2k_assets_tests.support.services.http_server import AnsweringHandler, HttpServer

Attributes = dict[str, Any]


class SeenSpan(NamedTuple):
    """A span.

    Attributes:
        name: Its name.
        attributes: Its attributes.
        nanoseconds: How long it took.
        is_error: Whether its status is an error.
    """

    name: str
    attributes: Attributes
    nanoseconds: int
    is_error: bool


class SeenLine(NamedTuple):
    """A log line.

    Attributes:
        text: The line.
        severity: Name of its level.
        attributes: Its attributes.
    """

    text: str
    severity: str
    attributes: Attributes


class OtlpCollector:
    """What has arrived so far."""

    def __init__(self) -> None:
        self.requests: list[ExportMetricsServiceRequest] = []
        self.spans: list[SeenSpan] = []
        self.lines: list[SeenLine] = []

    def take(self, path: str, body: bytes) -> bytes:
        """Takes a request; returns the answer."""
        if path == "/v1/metrics":
            self.requests.append(ExportMetricsServiceRequest.FromString(body))
            return bytes(ExportMetricsServiceResponse().SerializeToString())
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for span in (span for scope in resource.scope_spans for span in scope.spans):
                    took = span.end_time_unix_nano - span.start_time_unix_nano
                    self.spans.append(SeenSpan(span.name, _attributes(span.attributes), took, span.status.code == 2))
            return bytes(ExportTraceServiceResponse().SerializeToString())
        assert path == "/v1/logs", path
        for resource in ExportLogsServiceRequest.FromString(body).resource_logs:
            for line in (line for scope in resource.scope_logs for line in scope.log_records):
                attributes = _attributes(line.attributes)
                self.lines.append(SeenLine(line.body.string_value, line.severity_text, attributes))
        return bytes(ExportLogsServiceResponse().SerializeToString())

    def sum_of(self, name: str) -> float:
        """The newest value of a counter, all its labels together; 0 if it did not come."""
        metric = self._newest(name)
        return float(sum(point.as_int or point.as_double for point in metric.sum.data_points)) if metric else 0

    def count_of(self, name: str) -> int:
        """The newest number of values of a histogram, all its labels together; 0 if it did not come."""
        metric = self._newest(name)
        return sum(point.count for point in metric.histogram.data_points) if metric else 0

    def _newest(self, name: str) -> Metric | None:
        for request in reversed(self.requests):
            for resource in request.resource_metrics:
                for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                    if metric.name == name:
                        found: Metric = metric
                        return found
        return None

    def resources(self) -> set[str]:
        """The names of the services that sent metrics."""
        return {
            _attributes(resource.resource.attributes)["service.name"]
            for request in self.requests
            for resource in request.resource_metrics
        }


def _attributes(pairs: Iterable[Any]) -> Attributes:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


@contextmanager
def otlp_collector() -> Iterator[tuple[OtlpCollector, str]]:
    """A collector while the context lasts, and its address."""
    collector = OtlpCollector()

    class Handler(AnsweringHandler):
        def do_POST(self) -> None:  # noqa: N802 (the name that the server looks for)
            body = self.body()
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            self.answer(200, {"Content-Type": "application/x-protobuf"}, collector.take(self.path, body))

    with HttpServer(Handler) as server:
        yield collector, server.address
