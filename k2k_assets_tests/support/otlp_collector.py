"""A collector that takes metrics by OTLP over HTTP, and keeps them."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from k2k_assets_tests.support.http_server import AnsweringHandler, HttpServer


class OtlpCollector:
    """What has arrived so far."""

    def __init__(self) -> None:
        self.requests: list[ExportMetricsServiceRequest] = []

    def sum_of(self, name: str) -> float:
        """The newest value of a counter, all its labels together; 0 if it did not come."""
        for request in reversed(self.requests):
            for resource in request.resource_metrics:
                for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                    if metric.name == name:
                        return float(sum(point.as_int or point.as_double for point in metric.sum.data_points))
        return 0

    def resources(self) -> set[str]:
        """The names of the services that sent something."""
        return {
            attribute.value.string_value
            for request in self.requests
            for resource in request.resource_metrics
            for attribute in resource.resource.attributes
            if attribute.key == "service.name"
        }


@contextmanager
def otlp_collector() -> Iterator[tuple[OtlpCollector, str]]:
    """A collector while the context lasts, and its address."""
    collector = OtlpCollector()

    class Handler(AnsweringHandler):
        def do_POST(self) -> None:  # noqa: N802 (the name that the server looks for)
            body = self.body()
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            collector.requests.append(ExportMetricsServiceRequest.FromString(body))
            answer = ExportMetricsServiceResponse().SerializeToString()
            self.answer(200, {"Content-Type": "application/x-protobuf"}, answer)

    with HttpServer(Handler) as server:
        yield collector, server.address
