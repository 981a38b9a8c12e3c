"""What the clients of one kind send and receive, counted as it happens: requests and batches, never single records."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from k2k_assets.transport.client_statistics import COUNTERS, GAUGES, ClientFigures, ClientKind, ClientStatistics
from k2k_assets.transport.record_batch.wire.tasks import Task, Wait

_SLOWEST_SHARE = 0.99
# So many of the newest answers tell how long answers take.
_MOST_LATENCIES = 1000
_numbers = itertools.count(1)


class QueueSize(NamedTuple):
    """How much waits: number of records, and bytes of their batches."""

    records: int
    bytes_: int

    def plus(self, other: QueueSize) -> QueueSize:
        """Both together."""
        return QueueSize(self.records + other.records, self.bytes_ + other.bytes_)

    def minus(self, other: QueueSize) -> QueueSize:
        """Without the other, which is in it."""
        return QueueSize(self.records - other.records, self.bytes_ - other.bytes_)


NOTHING = QueueSize(0, 0)


@dataclass(slots=True, eq=False)
class Traffic:
    """The traffic of clients.

    Attributes:
        records: Records received, or sent.
        bytes_: Bytes of their batches, as they are on the wire.
        requests: Requests sent.
        request_bytes: Their bytes.
        response_bytes: Bytes of answers.
        retries: Batches that a broker did not take, and that went again.
        timeouts: Requests that were not answered in time.
        errors: Requests that ended with their connection.
        connections: Connections tried.
        disconnections: Connections that ended.
        open_connections: Connections that are open, or being opened.
    """

    records: int = 0
    bytes_: int = 0
    requests: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    retries: int = 0
    timeouts: int = 0
    errors: int = 0
    connections: int = 0
    disconnections: int = 0
    open_connections: int = 0
    _throttled: float = 0.0
    _latencies: deque[float] = field(default_factory=lambda: deque(maxlen=_MOST_LATENCIES))
    _queues: dict[object, Callable[[], QueueSize]] = field(default_factory=dict)
    _number: int = field(default_factory=lambda: next(_numbers))

    def carried(self, size: QueueSize) -> None:
        """Notes batches that were received, or sent."""
        self.records += size.records
        self.bytes_ += size.bytes_

    def connected(self) -> None:
        """Notes a connection that is tried."""
        self.connections += 1
        self.open_connections += 1

    def disconnected(self) -> None:
        """Notes that one of them has ended."""
        self.disconnections += 1
        self.open_connections -= 1

    def requested(self, size: int) -> float:
        """Notes a request of so many bytes; returns the time for `answered`."""
        self.requests += 1
        self.request_bytes += size
        return time.monotonic()

    def answered(self, size: int, since: float) -> None:
        """Notes an answer of so many bytes, to what was requested at a time."""
        self.response_bytes += size
        self._latencies.append(time.monotonic() - since)

    def throttled(self, seconds: float) -> None:
        """Notes that a broker asks for a pause."""
        self._throttled = max(self._throttled, seconds)

    def opened(self, client: object, queue: Callable[[], QueueSize]) -> None:
        """Counts the queue of a client until that is closed."""
        self._queues[client] = queue

    def closed(self, client: object) -> None:
        """Does not count the queue of a client any more."""
        self._queues.pop(client, None)

    def figures(self, kind: ClientKind) -> ClientFigures:
        """The counts, and how it was since the last call."""
        waiting = NOTHING
        for size in self._queues.values():
            waiting = waiting.plus(size())
        slowest = sorted(self._latencies)
        latency = slowest[int((len(slowest) - 1) * _SLOWEST_SHARE)] if slowest else 0.0
        counters = (
            *(self.records, self.bytes_, self.requests, self.request_bytes, self.response_bytes),
            *(self.retries, self.timeouts, self.errors, self.connections, self.disconnections),
        )
        gauges = (waiting.records, waiting.bytes_, latency, self._throttled, self.open_connections)
        self._latencies.clear()
        self._throttled = 0.0
        return ClientFigures(
            f"batches#{kind}-{self._number}",
            dict(zip(COUNTERS, map(float, counters), strict=True)),
            dict(zip(GAUGES, map(float, gauges), strict=True)),
        )


def report(statistics: ClientStatistics, traffic: Mapping[ClientKind, Traffic]) -> None:
    """Hands out the figures of all kinds of clients."""
    for kind, of_kind in traffic.items():
        statistics.take(kind, of_kind.figures(kind))


def reporting(statistics: ClientStatistics, traffic: Mapping[ClientKind, Traffic]) -> Task[None]:
    """Reports at the interval, until it is ended."""
    while True:
        yield Wait(time.monotonic() + statistics.interval_ms / 1000)
        report(statistics, traffic)
