"""Statistics of the clients of a transport: what makes them, and the figures in them. Pure.

librdkafka makes a JSON document for each client at an interval; some hundred KB for a hundred partitions. The copy loop
hands the text on unread; `figures_of` runs elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

ClientKind = Literal["consumer", "producer"]


class ClientFigures(NamedTuple):
    """Figures of one client, summed up over its brokers and partitions.

    Attributes:
        client: Name of the client, which no other one of the process has.
        counters: Totals since the client began.
        gauges: Present values.
    """

    client: str
    counters: dict[str, float]
    gauges: dict[str, float]


TakeStatistics = Callable[[ClientKind, str | ClientFigures], None]
"""Takes the statistics of a client, librdkafka's text or the figures themselves, in the thread of the copy loop: it
must neither wait nor raise."""


class ClientStatistics(NamedTuple):
    """How statistics are made.

    Attributes:
        interval_ms: Milliseconds between two of a client.
        take: Gets them.
    """

    interval_ms: int
    take: TakeStatistics

    def settings(self, kind: ClientKind) -> dict[str, Any]:
        """The settings of a librdkafka client that makes them."""
        return {"statistics.interval.ms": self.interval_ms, "stats_cb": lambda text: self.take(kind, text)}


COUNTERS = (
    *("records", "bytes", "requests", "request.bytes", "response.bytes"),
    *("request.retries", "request.timeouts", "request.errors", "connections", "disconnections"),
)
# States of librdkafka's brokers: it is connected too while the address of a broker changes.
_CONNECTED = ("UP", "UPDATE")
GAUGES = ("queue.records", "queue.bytes", "request.latency", "throttle.time", "brokers.connected")


def figures_of(kind: ClientKind, text: str) -> ClientFigures:
    """Reads the figures in the statistics of a client.

    Args:
        kind: The kind of the client.
        text: librdkafka's JSON.

    Raises:
        ValueError: The text is not such statistics.
    """
    try:
        document: dict[str, Any] = json.loads(text)
        brokers = [broker for broker in document["brokers"].values() if broker["nodeid"] >= 0]
        reads = kind == "consumer"
        partitions = [
            partition
            for topic in document["topics"].values()
            for number, partition in topic["partitions"].items()
            if number != "-1"
        ]
        counters = (
            *(document["rxmsgs" if reads else "txmsgs"], document["rxmsg_bytes" if reads else "txmsg_bytes"]),
            *(document["tx"], document["tx_bytes"], document["rx_bytes"]),
            *(_sum(brokers, "txretries"), _sum(brokers, "req_timeouts"), _sum(brokers, "rxerrs", "txerrs")),
            *(_sum(brokers, "connects"), _sum(brokers, "disconnects")),
        )
        gauges = (
            _sum(partitions, "fetchq_cnt") if reads else document["msg_cnt"],
            _sum(partitions, "fetchq_size") if reads else document["msg_size"],
            max((broker["rtt"]["p99"] for broker in brokers), default=0) / 1e6,
            max((broker["throttle"]["max"] for broker in brokers), default=0) / 1e3,
            sum(broker["state"] in _CONNECTED for broker in brokers),
        )
        return ClientFigures(
            document["name"], dict(zip(COUNTERS, counters, strict=True)), dict(zip(GAUGES, gauges, strict=True))
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no statistics of a client: {error!r}") from None


def _sum(things: Iterable[dict[str, Any]], *names: str) -> float:
    return float(sum(thing[name] for thing in things for name in names))
