"""The HTTP endpoint of a program: metrics for Prometheus, and its health."""

from __future__ import annotations

import errno
import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any, Protocol
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import REGISTRY, CollectorRegistry, make_wsgi_app

from k2k_assets.core.errors import Refused

_log = logging.getLogger("k2k.telemetry")

_ENDING_SECONDS = 5.0
# How often an address that is taken is tried again, and when somebody is told.
_TRY_SECONDS = 1.0
_PATIENCE_SECONDS = 60.0


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
def endpoint(
    host: str,
    port: int,
    health: Callable[[], HealthReport],
    registry: CollectorRegistry = REGISTRY,
    waits: bool = False,
) -> Iterator[str]:
    """Listens while the context lasts; yields its address.

    Args:
        host: Address at which it listens.
        port: Port; 0: any that is free.
        health: Tells the health of the program.
        registry: Has the metrics.
        waits: Whether an address that is taken is waited for, in the background.

    Raises:
        Refused: The address cannot be used.
    """

    def made() -> _Server:
        answer = application(health, registry)
        return make_server(host, port, answer, server_class=_Server, handler_class=_Quiet)

    try:
        server = made()
    except OSError as error:
        if not (waits and error.errno == errno.EADDRINUSE):
            raise Refused(
                f"telemetry cannot listen at {host}:{port}: {error.strerror or error}. OTEL_EXPORTER_PROMETHEUS_HOST "
                "and OTEL_EXPORTER_PROMETHEUS_PORT name another address"
            ) from None
        _log.info("%s:%d is taken: metrics can be read there when the program that uses it has ended", host, port)
        with _in_background(made, f"{host}:{port}"):
            yield f"http://{host}:{port}"
        return
    with _served(server):
        yield f"http://{host}:{server.server_port}"


@contextmanager
def _served(server: _Server) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, name="telemetry", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(_ENDING_SECONDS)


@contextmanager
def _in_background(made: Callable[[], _Server], where: str) -> Iterator[None]:
    """Serves as soon as the address is free, which it is when the run before this one has ended."""
    ended = threading.Event()

    def wait_and_serve() -> None:
        since, is_told = time.monotonic(), False
        while not ended.wait(_TRY_SECONDS):
            try:
                server = made()
            except OSError as error:
                if not is_told and time.monotonic() - since > _PATIENCE_SECONDS:
                    is_told = True
                    _log.warning(
                        "metrics cannot be read at %s yet: %s. Does another program listen there?",
                        where,
                        error.strerror,
                    )
                continue
            with _served(server):
                ended.wait()

    thread = threading.Thread(target=wait_and_serve, name="telemetry-waits", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_ENDING_SECONDS)


def application(health: Callable[[], HealthReport], registry: CollectorRegistry = REGISTRY) -> WSGIApplication:
    """`/metrics`, `/live` (also `/`, which K2K's chart asks), `/ready` and `/health`.

    Args:
        health: Tells the health of the program.
        registry: Has the metrics.
    """
    metrics = make_wsgi_app(registry)

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
