"""Takes the reports of slots: the driver's end of `replication/slot_reports.py`."""

from __future__ import annotations

import hmac
import logging
import secrets
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from k2k_assets.core.errors import Refused
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.plan import ReportAddress
from k2k_assets.replication.slot_reports import MOST_BYTES, Greeting, Report, report_of

_log = logging.getLogger("k2k.telemetry")

# Somebody who connects and says nothing is not waited for.
_GREETING_SECONDS = 5.0
_LOOPBACK = "127.0.0.1"


class ReportListener(Protocol):
    """Hears of reports, in a thread for each slot."""

    def arrived(self, slot: Greeting) -> None:
        """A slot has connected."""

    def reported(self, slot: Greeting, report: Report) -> None:
        """A slot has reported something."""

    def gone(self, slot: Greeting) -> None:
        """A slot's connection has ended."""


class ReportListeners:
    """Several listeners as one.

    Args:
        listeners: They.
    """

    def __init__(self, *listeners: ReportListener) -> None:
        self._listeners = listeners

    def arrived(self, slot: Greeting) -> None:
        """A slot has connected."""
        for listener in self._listeners:
            listener.arrived(slot)

    def reported(self, slot: Greeting, report: Report) -> None:
        """A slot has reported something."""
        for listener in self._listeners:
            listener.reported(slot, report)

    def gone(self, slot: Greeting) -> None:
        """A slot's connection has ended."""
        for listener in self._listeners:
            listener.gone(slot)


@contextmanager
def report_server(pipeline: Pipeline, listener: ReportListener, logs: bool = False) -> Iterator[ReportAddress]:
    """Takes reports while the context lasts; yields where.

    It listens on this machine alone where Spark runs here alone, else where Spark's driver does.

    Args:
        pipeline: Has the settings of Spark, and `metrics.clientStatistics`.
        listener: Hears of the reports.
        logs: Whether slots are to report their log lines.

    Raises:
        Refused: No port can be had.
    """
    token = secrets.token_hex(16)

    class Handler(socketserver.StreamRequestHandler):
        timeout = _GREETING_SECONDS

        def handle(self) -> None:
            _hear(self, token, listener)

    host, bind = _hosts(pipeline)
    try:
        server = _Server((bind, 0), Handler)
    except OSError as error:
        raise Refused(f"telemetry cannot listen for reports of slots at {bind or 'any address'}: {error}") from None
    threading.Thread(target=server.serve_forever, name="k2k-report-server", daemon=True).start()
    every = pipeline.metrics.client_statistics
    try:
        port = server.server_address[1]
        yield ReportAddress(host, port, token, int(every.total_seconds() * 1000) if every else 0, logs)
    finally:
        server.shutdown()
        server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:
        _log.debug("a connection for reports broke", exc_info=True)


def _hosts(pipeline: Pipeline) -> tuple[str, str]:
    """The host that workers reach, and the address to listen at."""
    spark = pipeline.spark
    if not spark.remote and spark.master.startswith("local"):
        return _LOOPBACK, _LOOPBACK
    return spark.config.get("spark.driver.host", socket.getfqdn()), spark.config.get("spark.driver.bindAddress", "")


def _hear(handler: socketserver.StreamRequestHandler, token: str, listener: ReportListener) -> None:
    try:
        slot = Greeting.of_line(handler.rfile.readline(MOST_BYTES))
    except (ValueError, OSError):
        return
    if not hmac.compare_digest(slot.token.encode(), token.encode()):
        _log.warning("somebody who is no slot of this instance connected from %s", handler.client_address[0])
        return
    handler.connection.settimeout(None)
    listener.arrived(slot)
    try:
        while line := handler.rfile.readline(MOST_BYTES):
            listener.reported(slot, report_of(line))
    except ValueError as error:
        _log.warning("slot %d reports what cannot be read: %s", slot.slot, error)
    finally:
        listener.gone(slot)
