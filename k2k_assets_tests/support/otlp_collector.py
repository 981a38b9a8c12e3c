"""A collector that takes metrics by OTLP over HTTP, and keeps them."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)


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

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            collector.requests.append(ExportMetricsServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.end_headers()
            self.wfile.write(ExportMetricsServiceResponse().SerializeToString())

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
