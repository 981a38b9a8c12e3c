"""Runs what lasts from a Dagster step, a copy for one, and ends it at a commit when the run is terminated."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from typing import Generic, Protocol, TypeVar

from k2k_assets.core.words import abbreviate, plural
from k2k_assets.replication.driver.events import Committed, Event, PartitionClaimed, ProgressRead
from k2k_assets.replication.driver.progress import Progress

log = logging.getLogger("k2k.dagster")

LOG_SECONDS = 30.0
# A slot commits and leaves within seconds; this bounds the wait for one that cannot.
STOP_SECONDS = 60.0
_TICK_SECONDS = 0.5

E = TypeVar("E")
E_contra = TypeVar("E_contra", contravariant=True)
R = TypeVar("R")


class Watcher(Protocol[E_contra]):
    """Follows what runs, in the thread in which Dagster wants its events."""

    def see(self, event: E_contra) -> None:
        """Told of each event but single commits and claims of a copy; what it raises ends nothing."""

    def is_over(self) -> bool:
        """Whether it is to end; asked about twice a second."""


def newest_progress(before: Event, event: Event) -> Event | None:
    """As `watched` wants it, for a copy."""
    return event if isinstance(before, ProgressRead) and isinstance(event, ProgressRead) else None


def watched(
    work: Callable[[threading.Event, Callable[[E], None]], R],
    watcher: Watcher[E],
    merged: Callable[[E, E], E | None] = lambda *_: None,
) -> R:
    """Runs a copy, or what else lasts, in a thread while this one watches it.

    Dagster interrupts the main thread. A copy that ran there would be torn out of a call; so it runs beside it, is told
    to stop, and commits what it has before the interruption goes on. Dagster's database may be away for a while: what
    the watcher cannot report then is no reason to end either.

    Args:
        work: Gets the stop event and the listener.
        watcher: Told what happens.
        merged: Makes one of two events in a row that a watcher has not taken yet, and the second of which tells all
            that the first one does; None: it does not. A watcher may be held up while much is told.

    Raises:
        K2KError: Whatever the work raises.
    """
    stop = threading.Event()
    events = _Events(merged)
    working: Future[R] = Future()
    patient = _Patient(watcher)

    def listen(event: E) -> None:
        if not isinstance(event, Committed | PartitionClaimed):
            events.put(event)

    def run() -> None:
        try:
            working.set_result(work(stop, listen))
        except BaseException as error:
            working.set_exception(error)

    thread = threading.Thread(target=run, name="k2k-work", daemon=True)
    try:
        thread.start()
        while wait([working], timeout=_TICK_SECONDS).not_done:
            for event in events.taken():
                patient.see(event)
            if watcher.is_over():
                stop.set()
        for event in events.taken():
            patient.see(event)
        return working.result()
    except BaseException:
        stop.set()
        if thread.ident is not None:
            wait([working], timeout=STOP_SECONDS)
        raise


class _Patient(Generic[E]):
    """Goes on with a watcher that cannot do what it is to do, and says so once."""

    def __init__(self, watcher: Watcher[E]) -> None:
        self._watcher = watcher
        self._is_in_trouble = False

    def see(self, event: E) -> None:
        try:
            self._watcher.see(event)
        except Exception:
            if not self._is_in_trouble:
                log.exception("what is done cannot be shown in Dagster; it goes on all the same")
            self._is_in_trouble = True
        else:
            self._is_in_trouble = False


class _Events(Generic[E]):
    """Events on their way from the thread of the work to that of the watcher."""

    def __init__(self, merged: Callable[[E, E], E | None]) -> None:
        self._merged = merged
        self._events: deque[E] = deque()
        self._lock = threading.Lock()

    def put(self, event: E) -> None:
        with self._lock:
            if self._events and (one := self._merged(self._events[-1], event)) is not None:
                self._events[-1] = one
            else:
                self._events.append(event)

    def taken(self) -> Iterator[E]:
        while True:
            with self._lock:
                if not self._events:
                    return
                event = self._events.popleft()
            yield event


class ProgressLog:
    """Logs the progress of a copy, a line each `LOG_SECONDS`.

    Args:
        log: Takes a line.
        seconds_behind: How far a copy is behind, in seconds; None where that cannot be told.
        clock: Seconds that only rise.
    """

    def __init__(
        self,
        log: Callable[[str], None],
        seconds_behind: Callable[[Progress], float | None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._seconds_behind = seconds_behind
        self._clock = clock
        self._next = clock() + LOG_SECONDS
        self._before: Progress | None = None

    def see(self, event: Event) -> None:
        """Logs the progress when it is time."""
        if isinstance(event, ProgressRead) and self._clock() >= self._next:
            self._next = self._clock() + LOG_SECONDS
            behind = self._seconds_behind(event.progress)
            self._log(describe(event.progress, self._before, LOG_SECONDS, behind))
            self._before = event.progress

    def is_over(self) -> bool:
        """A copy with an end ends by itself."""
        return False


def describe(progress: Progress, before: Progress | None, seconds: float, behind: float | None) -> str:
    """One line on a run's progress.

    Args:
        progress: As it is.
        before: As it was at the last line; None at the first one.
        seconds: Since then.
        behind: Seconds that the copy is behind; None where that cannot be told.
    """
    records = sum(p.records for p in progress.partitions.values())
    copied = records - (sum(p.records for p in before.partitions.values()) if before else 0)
    lag = sum(p.lag for p in progress.partitions.values())
    worst, most = max(progress.partitions.items(), key=lambda item: item[1].lag, default=(None, None))
    words = [f"copied {copied:,} ({copied / seconds:,.0f}/s), {lag:,} to go"]
    if behind is not None:
        words.append(f"{behind:.1f} s behind")
    if worst is not None and most is not None and most.lag:
        words.append(f"worst {worst}")
    if held := sum(p.held_since is not None for p in progress.partitions.values()):
        words.append(f"{plural(held, 'partition')} held back by open transactions on the source")
    if stopped := {tp.topic for tp, p in progress.partitions.items() if p.stopped}:
        words.append(f"stopped: {abbreviate(stopped)}")
    return ", ".join(words)
