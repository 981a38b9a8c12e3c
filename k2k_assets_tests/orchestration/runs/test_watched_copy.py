"""A terminated run ends after its copy has committed and released its partitions."""

from __future__ import annotations

import signal
import threading
from dataclasses import replace

import pytest

from k2k_assets.core.errors import Refused
from k2k_assets.core.stops.reasons.source_topic import SourceDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.orchestration.runs.watched_copy import LOG_SECONDS, ProgressLog, newest_progress, watched
from k2k_assets.replication.driver.events import Event, Listener, PartitionStopped, ProgressRead
from k2k_assets.replication.driver.outcome import Outcome
from k2k_assets.replication.driver.progress import PartitionProgress, Progress

PROGRESS = Progress(
    {
        TopicPartition("a", 0): PartitionProgress(position=60, readable_end=100, high_watermark=120, records=50),
        TopicPartition("b", 0): PartitionProgress(
            position=1, readable_end=1, high_watermark=9, held_since=1.0, stopped=SourceDeleted("b")
        ),
    },
    started=1000.0,
)


def test_what_the_copy_returns_and_raises_comes_through() -> None:
    outcome = Outcome(generation=3)
    assert watched(lambda stop, listener: outcome, ProgressLog(print)) is outcome

    def refuse(*_: object) -> Outcome:
        raise Refused("no such topic")

    with pytest.raises(Refused, match="no such topic"):
        watched(refuse, ProgressLog(print))


def test_progress_is_logged_a_line_at_a_time() -> None:
    now = 1000.0
    lines: list[str] = []
    progress_log = ProgressLog(lines.append, lambda _: 0.25, lambda: now)
    progress_log.see(ProgressRead(PROGRESS))
    assert lines == [], "there is nothing to say yet"
    now += LOG_SECONDS
    progress_log.see(ProgressRead(PROGRESS))
    more = {tp: replace(p, records=p.records + 60) for tp, p in PROGRESS.partitions.items()}
    progress_log.see(ProgressRead(Progress(more, PROGRESS.started)))
    now += LOG_SECONDS
    progress_log.see(ProgressRead(Progress(more, PROGRESS.started)))
    others = "1 partition held back by open transactions on the source, stopped: b"
    assert lines == [
        f"copied 50 (2/s), 40 to go, 0.2 s behind, worst a-0, {others}",
        f"copied 120 (4/s), 40 to go, 0.2 s behind, worst a-0, {others}",
    ]


def test_events_are_seen_in_the_thread_of_the_step() -> None:
    seen: list[tuple[Event, str]] = []
    watcher = ProgressLog(print)
    watcher.see = lambda event: seen.append((event, threading.current_thread().name))  # type: ignore[method-assign]
    told: list[Event] = [ProgressRead(PROGRESS), PartitionStopped(TopicPartition("b", 0), SourceDeleted("b"))]

    def copy(stop: threading.Event, listener: Listener) -> Outcome:
        for event in told:
            listener(event)
        return Outcome()

    watched(copy, watcher)
    assert seen == [(event, threading.current_thread().name) for event in told]


def test_while_a_watcher_is_held_up_only_the_newest_progress_waits_for_it() -> None:
    """Each tells of all partitions: a thousand of them would fill the memory."""
    stop, older = PartitionStopped(TopicPartition("b", 0), SourceDeleted("b")), replace(PROGRESS, started=1.0)
    all_is_told = threading.Event()
    seen: list[Event] = []
    watcher = ProgressLog(print)

    def see(event: Event) -> None:
        seen.append(event)
        assert all_is_told.wait(10)

    watcher.see = see  # type: ignore[method-assign]

    def copy(_: threading.Event, listener: Listener) -> Outcome:
        newest = ProgressRead(PROGRESS)
        told: list[Event] = [stop, *[ProgressRead(older)] * 5, newest, stop, stop, newest]
        for event in told:
            listener(event)
        all_is_told.set()
        return Outcome()

    watched(copy, watcher, newest_progress)
    assert seen == [stop, ProgressRead(PROGRESS), stop, stop, ProgressRead(PROGRESS)]


def test_a_watcher_that_fails_ends_no_copy(caplog: pytest.LogCaptureFixture) -> None:
    """Dagster's database may be away for a while; the clusters are not."""
    seen: list[Event] = []
    watcher = ProgressLog(print)

    def see(event: Event) -> None:
        seen.append(event)
        if len(seen) in (1, 2):
            raise OSError("the database is locked")

    watcher.see = see  # type: ignore[method-assign]
    told: list[Event] = [ProgressRead(PROGRESS)] * 3

    def copy(stop: threading.Event, listener: Listener) -> Outcome:
        for event in told:
            listener(event)
        return Outcome(generation=int(stop.wait(0)))

    assert watched(copy, watcher).generation == 0, "it was not told to stop"
    assert seen == told
    (told_once,) = caplog.records
    assert "cannot be shown in Dagster" in told_once.getMessage()


def test_a_copy_that_is_over_is_stopped() -> None:
    watcher = ProgressLog(print)
    watcher.is_over = lambda: True  # type: ignore[method-assign]
    assert watched(lambda stop, _: Outcome(generation=int(stop.wait(10))), watcher).generation == 1


def test_an_interruption_stops_the_copy_at_a_commit() -> None:
    committed: list[bool] = []

    def copy(stop: threading.Event, listener: object) -> Outcome:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)  # as when a run is terminated
        committed.append(stop.wait(10))
        return Outcome()

    with pytest.raises(KeyboardInterrupt):
        watched(copy, ProgressLog(print))
    assert committed == [True]
