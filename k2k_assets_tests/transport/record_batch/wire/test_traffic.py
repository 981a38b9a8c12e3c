"""The traffic of clients: what is counted, and how it is reported."""

from __future__ import annotations

import time

import pytest

from k2k_assets.transport.client_statistics import ClientFigures, ClientKind, ClientStatistics
from k2k_assets.transport.record_batch.wire.tasks import Loop
from k2k_assets.transport.record_batch.wire.traffic import QueueSize, Traffic, report, reporting


def _counted() -> Traffic:
    found = Traffic()
    found.connected()
    found.connected()
    found.disconnected()
    found.answered(30, found.requested(100))
    found.requested(50)
    found.carried(QueueSize(3, 90))
    found.carried(QueueSize(4, 60))
    return found


def test_what_was_counted_is_in_the_figures() -> None:
    counters, gauges = _counted().figures("consumer")[1:]
    assert counters == {
        "records": 7, "bytes": 150, "requests": 2, "request.bytes": 150, "response.bytes": 30, "request.retries": 0,
        "request.timeouts": 0, "request.errors": 0, "connections": 2, "disconnections": 1,
    }  # fmt: skip
    assert (gauges["brokers.connected"], gauges["queue.records"], gauges["queue.bytes"]) == (1, 0, 0)


def test_the_slowest_answers_and_the_longest_pause_are_those_since_the_last_figures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, times = Traffic(), iter(range(1000))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(times)))
    for seconds in (0.5, 0.25):
        found.throttled(seconds)
    for since in range(100):
        found.answered(1, float(since))  # each takes no time
    found.answered(1, 98.0)  # at 100
    gauges = found.figures("producer").gauges
    assert (gauges["request.latency"], gauges["throttle.time"]) == (0.0, 0.5), "one of a hundred is slower"
    found.answered(1, 98.0)  # at 101
    assert found.figures("producer").gauges["request.latency"] == 3.0
    gauges = found.figures("producer").gauges
    assert (gauges["request.latency"], gauges["throttle.time"]) == (0.0, 0.0)


def test_queues_count_while_their_clients_are_open() -> None:
    found, one, other = Traffic(), object(), object()
    found.opened(one, lambda: QueueSize(1, 10))
    found.opened(other, lambda: QueueSize(2, 5))
    assert _queue(found) == (3, 15)
    found.closed(one)
    found.closed(one)
    assert _queue(found) == (2, 5)


def _queue(found: Traffic) -> tuple[float, float]:
    gauges = found.figures("consumer").gauges
    return gauges["queue.records"], gauges["queue.bytes"]


def test_figures_are_reported_at_the_interval_whichever_loop_runs() -> None:
    taken: list[tuple[ClientKind, ClientFigures]] = []

    def take(kind: ClientKind, figures: str | ClientFigures) -> None:
        assert isinstance(figures, ClientFigures)
        taken.append((kind, figures))

    loops: list[Loop] = []
    statistics, traffic = ClientStatistics(10, take), {"consumer": _counted(), "producer": Traffic()}
    Loop(loops).start(reporting(statistics, traffic))  # type: ignore[arg-type]
    Loop(loops).run(60, lambda: len(taken) >= 4)
    assert [kind for kind, _ in taken] == ["consumer", "producer"] * 2
    assert len({figures.client for _, figures in taken}) == 2, "each has a name of its own"
    report(statistics, traffic)  # type: ignore[arg-type]
    assert taken[-2][1].counters["records"] == 7
