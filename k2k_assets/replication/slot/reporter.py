"""Reports what a slot does to the driver, from a thread of its own: the copy loop never waits for it."""

from __future__ import annotations

import logging
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from k2k_assets.core.log_fields import fields_of
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.commit.committer import CommitListener
from k2k_assets.replication.slot.gathered_commits import GatheredCommits
from k2k_assets.replication.slot_reports import Commits, Greeting, LogLine, Report, SessionEnded, Statistics, line_of
from k2k_assets.transport.client_statistics import ClientFigures, ClientKind, ClientStatistics, figures_of

log = logging.getLogger("k2k.replication")
_ours = logging.getLogger("k2k")

_SECONDS = 2.0
# A driver that cannot be reached is tried again after so many seconds; what comes meanwhile is dropped.
_RETRY_SECONDS = 10.0
_MOST_QUEUED = 100
# A report of commits has those of so many seconds.
_COMMITS_SECONDS = 1.0
_Unread = tuple[ClientKind, str | ClientFigures]
_REPORTS = (SessionEnded, Statistics, Commits, LogLine)
# Stands for nothing but the wish to connect.
_HELLO: _Unread = ("consumer", "")


class SlotReporter:
    """Reports for one slot.

    Args:
        plan: The slot's plan; without `reports` nothing is reported, and no thread is started.
    """

    def __init__(self, plan: SlotPlan) -> None:
        self._address = plan.reports
        self._queue: queue.Queue[Report | _Unread | None] = queue.Queue(_MOST_QUEUED)
        self._is_closed = threading.Event()
        self._commits = GatheredCommits()
        self._commits_due = 0.0
        self._thread: threading.Thread | None = None
        self._handler: _Handler | None = None
        if plan.reports is not None:
            self._greeting = Greeting(plan.reports.token, plan.slot, plan.generation).line()
            self._thread = threading.Thread(target=self._send_all, name="k2k-reports", daemon=True)
            self._thread.start()
            if plan.reports.logs:
                self._handler = _Handler(self._put, plan.slot, plan.generation)
                _ours.addHandler(self._handler)

    @property
    def statistics(self) -> ClientStatistics | None:
        """How the slot's clients make statistics; None if they make none."""
        if self._address is None or not self._address.statistics_ms:
            return None
        return ClientStatistics(self._address.statistics_ms, lambda kind, made: self._put((kind, made)))

    @property
    def commits(self) -> CommitListener | None:
        """What has to hear of the slot's commits; None if nothing has."""
        return None if self._address is None else self._commits.add

    @contextmanager
    def session(self, has_records: Callable[[], bool]) -> Iterator[None]:
        """Reports the session in its body when it ends, with the error that it raises.

        Args:
            has_records: Tells whether the session has records in hand.
        """
        if self._address is None:
            yield
            return
        began, error = _now(), ""
        try:
            yield
        except BaseException as ended_by:
            error = type(ended_by).__name__
            raise
        finally:
            self._put(SessionEnded(began, _now(), error, bool(error) and has_records()))

    def close(self) -> None:
        """Sends what is left, for seconds at most."""
        if self._handler is not None:
            _ours.removeHandler(self._handler)
        if self._thread is not None:
            self._is_closed.set()
            self._put(None)  # it may be full, and then the thread has no need to be woken
            self._thread.join(_SECONDS)

    def _put(self, report: Report | _Unread | None) -> None:
        with suppress(queue.Full):  # the driver cannot be reached, or the thread ends
            self._queue.put_nowait(report)

    def _send_all(self) -> None:
        connection: socket.socket | None = None
        next_try = 0.0
        report: Report | _Unread | None = _HELLO
        while report is not None:
            try:
                if connection is None and time.monotonic() >= next_try:
                    connection = self._connect()
                if report is not _HELLO and connection is not None:
                    connection.sendall(line_of(report if isinstance(report, _REPORTS) else _read(*report)))
            except ValueError as error:
                log.debug("statistics of a client cannot be read: %s", error)
            except OSError as error:
                log.debug("the driver cannot be reached for reports: %s", error)
                next_try = time.monotonic() + _RETRY_SECONDS
                if connection is not None:
                    connection.close()
                connection = None
            report = self._next()
        if connection is not None:
            connection.close()

    def _next(self) -> Report | _Unread | None:
        """Waits for the next report; None: all are sent, and none will come."""
        while True:
            is_closed = self._is_closed.is_set()
            if is_closed or time.monotonic() >= self._commits_due:
                if (gathered := self._commits.taken()) is not None:
                    return gathered
                self._commits_due = time.monotonic() + _COMMITS_SECONDS
            try:
                report = self._queue.get(block=not is_closed, timeout=_COMMITS_SECONDS)
            except queue.Empty:
                if is_closed:
                    return None
                continue
            if report is not None:
                return report

    def _connect(self) -> socket.socket:
        assert self._address
        connection = socket.create_connection((self._address.host, self._address.port), _SECONDS)
        connection.sendall(self._greeting)
        return connection


class _Handler(logging.Handler):
    """Reports the lines of one slot: in tests a process has several."""

    def __init__(self, put: Callable[[Report], None], slot: int, generation: int) -> None:
        super().__init__(logging.INFO)
        self._put = put
        self._of = {"slot": slot, "generation": generation}

    def emit(self, record: logging.LogRecord) -> None:
        try:
            fields = fields_of(record)
            if self._of.items() <= fields.items():
                time_ns = int(record.created * 1e9)
                self._put(LogLine(time_ns, record.levelno, record.name, record.getMessage(), fields))
        except Exception:
            self.handleError(record)


def _read(kind: ClientKind, made: str | ClientFigures) -> Statistics:
    return Statistics(kind, figures_of(kind, made) if isinstance(made, str) else made)


def _now() -> int:
    return time.time_ns() // 1_000_000
