"""A terminated run lets its copy commit and leave before it ends."""

from __future__ import annotations

import signal
import threading
from types import SimpleNamespace

import pytest

from k2k_assets.core.errors import Refused
from k2k_assets.core.stops.reasons import SourceDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.orchestration.assets import watched_copy
from k2k_assets.orchestration.assets.watched_copy import describe, watched
from k2k_assets.replication.driver.events import ProgressRead
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
    assert watched(lambda stop, listener: outcome, print) is outcome

    def refuse(*_: object) -> Outcome:
        raise Refused("no such topic")

    with pytest.raises(Refused, match="no such topic"):
        watched(refuse, print)


def test_progress_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_copy, "LOG_SECONDS", 0.01)
    monkeypatch.setattr(watched_copy, "time", SimpleNamespace(monotonic=lambda: 1003.0))
    logged = threading.Event()
    lines: list[str] = []

    def log(line: str) -> None:
        lines.append(line)
        logged.set()

    def copy(stop: threading.Event, listener: object) -> Outcome:
        assert callable(listener)
        listener(ProgressRead(PROGRESS))
        assert logged.wait(10)
        return Outcome()

    watched(copy, log)
    assert lines == [describe(PROGRESS)]
    assert "50 records copied in 3 s" in lines[0]
    assert "40 source offsets to go" in lines[0]
    assert "1 partitions held back" in lines[0]
    assert "stopped: b" in lines[0]


def test_an_interruption_stops_the_copy_at_a_commit() -> None:
    committed: list[bool] = []

    def copy(stop: threading.Event, listener: object) -> Outcome:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)  # as when a run is terminated
        committed.append(stop.wait(10))
        return Outcome()

    with pytest.raises(KeyboardInterrupt):
        watched(copy, print)
    assert committed == [True]
