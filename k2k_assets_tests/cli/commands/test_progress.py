"""The progress display: rates, lag, ETA, warnings; as a table and as lines."""

from __future__ import annotations

import io
import logging
import os
import time
from typing import Any

import pytest
from rich.console import Console
from rich.live import Live

from k2k_assets.cli.commands.progress import LiveDisplay, ProgressLines, shown, status_table
from k2k_assets.cli.commands.topic_status import StatusReader
from k2k_assets.core.stops.reason import render
from k2k_assets.core.stops.reasons.source_topic import SourceDeleted
from k2k_assets.core.stops.reasons.unclassified import Unclassified
from k2k_assets_tests.cli.reports import partition, progress_of

GONE = Unclassified("gone")


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "TZ", "UTC")
    time.tzset()


def rendered(reader: StatusReader, rows: int = 20, **report: Any) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(status_table(reader.read(progress_of(**report)), rows))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_status_sums_the_partitions_of_a_topic() -> None:
    clock = Clock()
    clock.seconds = 110.0
    reader = StatusReader(clock)
    (status,) = reader.read(progress_of(100.0, orders=[partition(60, 100, 50), partition(10, 20, 10)]))
    assert (status.position, status.end, status.records, status.lag) == (70, 120, 60, 50)
    assert status.rate == pytest.approx(6.0)
    assert status.eta == pytest.approx(50 / 6)
    assert status.state == "copying"


def test_rate_is_that_of_the_last_seconds() -> None:
    clock = Clock()
    reader = StatusReader(clock)
    for records in [0, 10_000, *[10_000] * 12]:
        clock.seconds += 1
        (status,) = reader.read(progress_of(100.0, orders=[partition(records, 20_000, records)]))
    assert status.rate == 0
    assert status.eta is None, "nothing moves: no promise"


def test_time_before_the_first_record_does_not_lower_the_rate() -> None:
    clock = Clock()
    reader = StatusReader(clock)
    for records in [0, 0, 0, 0, 1000]:
        clock.seconds += 1
        (status,) = reader.read(progress_of(90.0, orders=[partition(records, 5000, records)]))
    assert status.rate == pytest.approx(1000)


def test_position_beyond_the_end_is_no_negative_lag() -> None:
    (status,) = StatusReader(Clock()).read(progress_of(0.0, orders=[partition(12, 10, 12)]))
    assert status.lag == 0
    assert status.state == "caught up"


@pytest.mark.usefixtures("utc")
def test_open_transaction_is_named_after_a_minute() -> None:
    reader = StatusReader(Clock(), now=lambda: 1000.0)
    (held,) = reader.read(progress_of(0.0, orders=[partition(5, 5), partition(5, 5, held_since=35.0)]))
    assert held.state == "held by an open transaction since 00:15:35 (partition 1)"
    (young,) = reader.read(progress_of(0.0, orders=[partition(5, 5, held_since=90.0)]))
    assert young.state == "caught up"


def test_stopped_topic_shows_its_reason_once() -> None:
    reason = SourceDeleted("orders")
    (status,) = StatusReader(Clock()).read(progress_of(0.0, orders=[partition(1, 5, stopped=reason)] * 3))
    assert status.state == f"stopped: {render(reason)}"
    assert status.stopped


def test_the_table_shows_the_code_of_a_stop_reason() -> None:
    text = rendered(StatusReader(Clock()), orders=[partition(1, 5, stopped=SourceDeleted("orders"))])
    assert "[source-deleted]" in text


def test_table_shows_every_topic_and_the_sum() -> None:
    text = rendered(StatusReader(Clock()), orders=[partition(1_500, 2_000, 1_500)], payments=[partition(7, 7, 7)])
    orders, payments, total = (line.split() for line in text.splitlines()[1:4])
    assert orders[:5] == ["orders", "1,500", "2,000", "1,500", "500"]
    assert payments[:5] == ["payments", "7", "7", "7", "0"]
    assert total[:6] == ["2", "topics", "1,507", "2,007", "1,507", "500"]


def test_table_of_many_topics_keeps_those_that_need_attention() -> None:
    topics = {f"t{n:02}": [partition(n, 10)] for n in range(10)}
    topics["t09"] = [partition(10, 10, stopped=GONE)]
    text = rendered(StatusReader(Clock()), rows=2, **topics)
    assert [line.split()[0] for line in text.splitlines()[1:3]] == ["t09", "t00"]
    assert "and 8 more topics" in text


def test_live_display_draws_on_a_terminal() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120, height=30)
    with Live(console=console, auto_refresh=False) as live:
        LiveDisplay(live).show(progress_of(0.0, orders=[partition(1, 2, 1)]))
    assert "orders" in console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_gets_the_table_and_all_else_lines(terminal: bool, caplog: pytest.LogCaptureFixture) -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=120, height=30)
    with caplog.at_level(logging.INFO, "k2k.progress"), shown(console) as observer:
        observer(progress_of(0.0, orders=[partition(1, 2, 1)]))
    assert ("orders" in file.getvalue(), "orders" in caplog.text) == (terminal, not terminal)


def test_lines_are_spaced_and_only_of_what_changed(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    display = ProgressLines(interval=5, clock=clock)
    with caplog.at_level(logging.INFO, "k2k.progress"):
        for second, payments in [(0, 1), (1, 2), (5, 2), (10, 2)]:
            clock.seconds = 100.0 + second
            display.show(progress_of(99.0, orders=[partition(9, 9, 9)], payments=[partition(payments, 2, payments)]))
    assert [record.getMessage().split(" of")[0] for record in caplog.records] == [
        "orders: position 9",
        "payments: position 1",
        "payments: position 2",
    ]


def test_after_two_minutes_there_is_a_line_a_minute_and_news_at_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    display = ProgressLines(clock=clock)
    with caplog.at_level(logging.INFO, "k2k.progress"):
        for second in range(0, 300, 5):
            clock.seconds = 100.0 + second
            stopped = GONE if second >= 200 else None
            display.show(progress_of(99.0, orders=[partition(second, 500, second, stopped=stopped)]))
    seconds = [int(record.getMessage().partition("position ")[2].partition(" ")[0]) for record in caplog.records]
    assert seconds == [*range(0, 121, 5), 180, 200, 240]
    assert [record.levelname for record in caplog.records[-2:]] == ["WARNING", "WARNING"]


def test_many_topics_share_a_line_and_warnings_keep_theirs(caplog: pytest.LogCaptureFixture) -> None:
    topics = {f"t{n:02}": [partition(n, 10, n)] for n in range(12)}
    topics["t03"] = [partition(3, 10, 3, stopped=GONE)]
    with caplog.at_level(logging.INFO, "k2k.progress"):
        ProgressLines(clock=Clock()).show(progress_of(99.0, **topics))
    total, warning = caplog.records
    assert total.getMessage().startswith("12 topics: position 66 of 120, 66 copied, lag 55, ")
    assert warning.levelno == logging.WARNING
    assert warning.getMessage().endswith(f"stopped: {render(GONE)}")
