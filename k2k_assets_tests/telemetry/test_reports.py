"""Slots report to the driver: who is believed, what is counted, and that nobody waits."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.replication.plan import ReportAddress, SlotPlan
from k2k_assets.replication.slot.reporter import SlotReporter
from k2k_assets.replication.slot_reports import (
    AGE_BOUNDS,
    DURATION_BOUNDS,
    Commits,
    Distribution,
    Greeting,
    Report,
    SessionEnded,
    Statistics,
    line_of,
)
from k2k_assets.telemetry.report_server import report_server
from k2k_assets.telemetry.slot_instruments import SlotInstruments
from k2k_assets.transport.client_statistics import COUNTERS, GAUGES, ClientFigures
from k2k_assets.transport.errors import Restart
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.telemetry.pages import named_in
from k2k_assets_tests.telemetry.readings import Labels, Reading
from k2k_assets_tests.transport.test_client_statistics import document

NOTHING: Labels = frozenset()


class Heard:
    """What a server was told."""

    def __init__(self) -> None:
        self.arrivals: list[Greeting] = []
        self.reports: list[Report] = []
        self.leavings: list[Greeting] = []

    def arrived(self, slot: Greeting) -> None:
        self.arrivals.append(slot)

    def reported(self, slot: Greeting, report: Report) -> None:
        self.reports.append(report)

    def gone(self, slot: Greeting) -> None:
        self.leavings.append(slot)


@contextmanager
def serving(directory: Path, **metrics: object) -> Iterator[tuple[Heard, ReportAddress]]:
    pipeline = make_pipeline(directory, "a:1", "b:1", ["orders"], metrics=metrics)
    heard = Heard()
    with report_server(pipeline, heard) as address:
        yield heard, address


def plan(reports: ReportAddress | None) -> SlotPlan:
    return cast(SlotPlan, SimpleNamespace(reports=reports, slot=3, generation=17))


def commits(durations: list[float], **ages: list[float]) -> Commits:
    by_topic = {topic: Distribution.of(each, AGE_BOUNDS) for topic, each in ages.items()}
    return Commits(Distribution.of(durations, DURATION_BOUNDS), by_topic)


def test_sessions_and_statistics_arrive(tmp_path: Path) -> None:
    with serving(tmp_path, clientStatistics="5 seconds") as (heard, address):
        assert (address.host, address.statistics_ms) == ("127.0.0.1", 5000)
        reporter = SlotReporter(plan(address))
        wait_until(lambda: bool(heard.arrivals), 120, "the slot to arrive, though it has nothing to report")
        assert reporter.statistics
        with pytest.raises(Restart), reporter.session(lambda: True):
            raise Restart("the target went away")
        with reporter.session(lambda: True):
            reporter.statistics.take("consumer", document(rxmsgs=7))
        reporter.statistics.take("consumer", "no statistics")
        reporter.close()
        wait_until(lambda: bool(heard.leavings), 120, "the slot to leave")
    [failed, statistics, good] = heard.reports
    assert isinstance(failed, SessionEnded)
    assert (failed.error, failed.aborted) == ("Restart", True)
    assert failed.began <= failed.ended <= time.time() * 1000
    assert isinstance(statistics, Statistics)
    assert (statistics.of, statistics.figures.counters["records"]) == ("consumer", 7)
    assert isinstance(good, SessionEnded)
    assert (good.error, good.aborted) == ("", False)
    assert [(slot.slot, slot.generation) for slot in heard.arrivals] == [(3, 17)]


def test_commits_arrive_while_nothing_else_happens_and_the_last_ones_at_the_end(tmp_path: Path) -> None:
    with serving(tmp_path) as (heard, address):
        reporter = SlotReporter(plan(address))
        assert reporter.commits
        reporter.commits(0.25, {"orders": 1.5})
        wait_until(lambda: bool(heard.reports), 120, "a commit that no other follows")
        for _ in range(300):
            reporter.commits(0.5, {"orders": 2.5})
        reporter.close()
        wait_until(lambda: bool(heard.leavings), 120, "the slot to leave")
    told = [report for report in heard.reports if isinstance(report, Commits)]
    assert told[0] == commits([0.25], orders=[1.5])
    assert sum(sum(report.durations.counts) for report in told) == 301
    assert sum(report.ages["orders"].seconds for report in told) == 1.5 + 300 * 2.5


def test_without_an_address_there_is_no_thread_and_are_no_statistics() -> None:
    before = threading.active_count()
    reporter = SlotReporter(plan(None))
    with reporter.session(lambda: True):
        assert threading.active_count() == before
    assert reporter.statistics is None
    assert reporter.commits is None, "the copy loop has nobody to tell"
    reporter.close()


def test_statistics_are_off_unless_the_file_asks_for_them(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, address):
        reporter = SlotReporter(plan(address))
        assert reporter.statistics is None
        reporter.close()


def test_a_driver_that_cannot_be_reached_or_does_not_read_delays_nobody() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listens:  # and never takes a connection
        for port in (1, listens.getsockname()[1]):
            reporter = SlotReporter(plan(ReportAddress("127.0.0.1", port, "token", 1000)))
            assert reporter.statistics
            began = time.monotonic()
            for _ in range(10_000):
                reporter.statistics.take("producer", document())
            assert time.monotonic() - began < 20, "waiting for it each time would take minutes"
            reporter.close()
            wait_until(lambda: "k2k-reports" not in {thread.name for thread in threading.enumerate()}, 120, "its end")


def test_who_is_no_slot_is_not_believed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    report = line_of(SessionEnded(1, 2, "Restart", True))
    with serving(tmp_path) as (heard, address), caplog.at_level(logging.WARNING):
        for said in (b"GET / HTTP/1.1\r\n\r\n", Greeting("guessed", 3, 17).line() + report, b""):
            with socket.create_connection((address.host, address.port), 5) as connection:
                connection.sendall(said)
                connection.shutdown(socket.SHUT_WR)
                assert connection.recv(1) == b"", "it was hung up"
        with socket.create_connection((address.host, address.port), 5) as connection:
            connection.sendall(Greeting(address.token, 3, 17).line() + report + b"nonsense\n")
            assert connection.recv(1) == b""
        wait_until(lambda: bool(heard.leavings), 120, "the slot to leave")
    assert len(heard.arrivals) == len(heard.reports) == 1
    assert "no slot of this instance" in caplog.text
    assert address.token not in caplog.text + repr(address)


class Metrics(Reading):
    """The instruments, and what a reader finds in them."""

    def __init__(self, directory: Path, **metrics: object) -> None:
        self.pipeline = make_pipeline(directory, "a:1", "b:1", ["orders"], metrics=metrics)
        super().__init__(self.pipeline.name)
        self.instruments = SlotInstruments(self.meter, self.distributions, self.pipeline)


def slot(number: int, generation: int = 17) -> Greeting:
    return Greeting("", number, generation)


def statistics(client: str, records: float, queued: float, latency: float = 0.0) -> Statistics:
    counters, gauges = dict.fromkeys(COUNTERS, 0.0), dict.fromkeys(GAUGES, 0.0)
    counters["records"], gauges["queue.records"], gauges["request.latency"] = records, queued, latency
    return Statistics("producer", ClientFigures(client, counters, gauges))


def of(number: int) -> Labels:
    return frozenset({("slot", number)})


def test_totals_add_up_over_clients_and_gauges_are_of_those_that_there_are(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, clientStatistics="5 seconds")
    for number, report in (
        (0, statistics("one", 10, 5, 0.1)),
        (0, statistics("one", 15, 3, 0.2)),
        (0, statistics("two", 100, 4, 0.1)),
        (1, statistics("one", 1, 1)),
    ):
        metrics.instruments.reported(slot(number), report)
    found = metrics.found()
    assert found["k2k.producer.records"] == {of(0): 115, of(1): 1}
    assert found["k2k.producer.queue.records"] == {of(0): 7, of(1): 1}
    assert found["k2k.producer.request.latency"] == {of(0): 0.2, of(1): 0}
    metrics.instruments.gone(slot(0))
    metrics.instruments.reported(slot(0, 18), statistics("one", 2, 6))
    found = metrics.found()
    assert found["k2k.producer.records"] == {of(0): 117, of(1): 1}
    assert found["k2k.producer.queue.records"] == {of(0): 6, of(1): 1}


def test_restarts_and_aborts_begin_at_0(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path)
    metrics.instruments.arrived(slot(0))
    assert metrics.found() == {"k2k.restarts": {of(0): 0}, "k2k.aborts": {of(0): 0}}
    for error, aborted in (("", False), ("Restart", True), ("RetryAtOnce", False)):
        metrics.instruments.reported(slot(0), SessionEnded(1, 2, error, aborted))
    metrics.instruments.reported(slot(0), statistics("one", 10, 5))
    assert metrics.found() == {"k2k.restarts": {of(0): 2}, "k2k.aborts": {of(0): 1}}, "statistics were not asked for"


def test_commits_are_counted_by_slot_and_latencies_by_topic(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path)
    metrics.instruments.arrived(slot(0))
    metrics.instruments.reported(slot(0), commits([0.25, 0.5], orders=[1.5, 2.5], returns=[4.0]))
    metrics.instruments.reported(slot(1), commits([0.125], orders=[8.0]))
    found = metrics.found()
    assert found["k2k.commit.duration"] == {of(0): 0.75, of(1): 0.125}
    by_topic = {frozenset({("topic", "orders")}): 12.0, frozenset({("topic", "returns")}): 4.0}
    assert found["k2k.latency"] == by_topic


def test_names_begin_as_the_file_says(tmp_path: Path) -> None:
    prefix = {"sourceConsumer": "reads_", "targetProducer": "writes_", "assignment": "acme.", "targetConsumer": "none_"}
    metrics = Metrics(tmp_path, clientStatistics="5 seconds", prefix=prefix)
    metrics.instruments.arrived(slot(0))
    metrics.instruments.reported(slot(0), commits([0.1], orders=[0.1]))
    for client in ("consumer", "producer"):
        metrics.instruments.reported(slot(0), statistics(client, 10, 5)._replace(of=client))
    named = {f"{begin}{name}" for begin in ("reads_", "writes_") for name in (*COUNTERS, *GAUGES)}
    ours = {f"acme.{name}" for name in ("restarts", "aborts", "commit.duration", "latency")}
    assert metrics.found().keys() == ours | named


def test_the_page_names_each_metric_and_no_other(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, clientStatistics="5 seconds")
    for number, report in enumerate((statistics("one", 10, 5), statistics("two", 1, 1)._replace(of="consumer"))):
        metrics.instruments.arrived(slot(number))
        metrics.instruments.reported(slot(number), report)
    metrics.instruments.reported(slot(0), commits([0.1], orders=[0.1]))
    assert named_in("What slots report") == metrics.found().keys()
