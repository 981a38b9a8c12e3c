"""The HTTP endpoint of a program: metrics for Prometheus, and its health."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any, Protocol
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import make_wsgi_app

from k2k_assets.core.errors import Refused

_ENDING_SECONDS = 5.0


class HealthReport(Protocol):
    """The health of a program; a named tuple, whose fields are shown."""

    @property
    def ready(self) -> bool:
        """Whether it does its work."""

    @property
    def is_well(self) -> bool:
        """Whether it is ready, and nothing needs somebody's attention."""

    def _asdict(self) -> dict[str, Any]: ...


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    # Whoever does not go on with a request keeps no thread for ever.
    timeout = 10

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: a scrape each few seconds is no news."""


@contextmanager
def endpoint(host: str, port: int, health: Callable[[], HealthReport]) -> Iterator[str]:
    """Listens while the context lasts; yields its address.

    Args:
        host: Address at which it listens.
        port: Port; 0: any that is free.
        health: Tells the health of the program.

    Raises:
        Refused: The address cannot be used.
    """
    try:
        server = make_server(host, port, application(health), server_class=_Server, handler_class=_Quiet)
    except OSError as error:
        raise Refused(
            f"telemetry cannot listen at {host}:{port}: {error.strerror or error}. OTEL_EXPORTER_PROMETHEUS_HOST and "
            "OTEL_EXPORTER_PROMETHEUS_PORT name another address"
        ) from None
    thread = threading.Thread(target=server.serve_forever, name="telemetry", daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(_ENDING_SECONDS)


def application(health: Callable[[], HealthReport]) -> WSGIApplication:
    """`/metrics`, `/live` (also `/`, which K2K's chart asks), `/ready` and `/health`.

    Args:
        health: Tells the health of the program.
    """
    metrics = make_wsgi_app()

    def answer(environment: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environment.get("PATH_INFO", "/")
        if path == "/metrics":
            found: Iterable[bytes] = metrics(environment, start)
            return found
        if path in ("/", "/live"):
            return _json(start, "200 OK", {"live": True})
        if path not in ("/ready", "/health"):
            return _json(start, "404 Not Found", {"paths": ["/metrics", "/live", "/ready", "/health"]})
        now = health()
        good = now.ready if path == "/ready" else now.is_well
        return _json(start, "200 OK" if good else "503 Service Unavailable", {"live": True, **now._asdict()})

    return answer


def _json(start: StartResponse, status: str, document: dict[str, Any]) -> Iterable[bytes]:
    body = json.dumps(document).encode()
    start(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]
