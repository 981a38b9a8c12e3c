"""Runs long work, such as a copy, from a Dagster step, and ends it at a commit when the run is terminated."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from typing import Generic, Protocol, TypeVar

from k2k_assets.core.words import abbreviate, plural
from k2k_assets.replication.driver.events import Committed, Event, ProgressRead
from k2k_assets.replication.driver.progress import Progress

log = logging.getLogger("k2k.dagster")

LOG_SECONDS = 30.0
# A slot commits and ends within seconds; this limits the wait for one that cannot.
STOP_SECONDS = 60.0
_TICK_SECONDS = 0.5

E = TypeVar("E")
E_contra = TypeVar("E_contra", contravariant=True)
R = TypeVar("R")


class Watcher(Protocol[E_contra]):
    """Follows the work, in the thread that reports to Dagster."""

    def see(self, event: E_contra) -> None:
        """Receives each event, except single commits of a copy; its errors end nothing."""

    def is_over(self) -> bool:
        """Whether the work should end; called about twice a second."""


def newest_progress(before: Event, event: Event) -> Event | None:
    """Merges two events of a copy for `watched`."""
    return event if isinstance(before, ProgressRead) and isinstance(event, ProgressRead) else None


def watched(
    work: Callable[[threading.Event, Callable[[E], None]], R],
    watcher: Watcher[E],
    merged: Callable[[E, E], E | None] = lambda *_: None,
) -> R:
    """Runs a copy, or other long work, in a thread while this one watches it.

    Dagster interrupts the main thread, which would abort a call in the middle of the copy. So the copy runs in another
    thread, receives the stop event, and commits before the interruption continues. An error of the watcher does not end
    the work either, because Dagster's database may be unreachable for a while.

    Args:
        work: The work; it receives the stop event and the listener.
        watcher: Receives the events.
        merged: Merges two consecutive events that the watcher has not received yet, if the second replaces the first;
            else None. So events do not pile up while a watcher is slow.

    Raises:
        K2KError: Any error of the work.
    """
    stop = threading.Event()
    events = _Events(merged)
    working: Future[R] = Future()
    patient = _Patient(watcher)

    def listen(event: E) -> None:
        if not isinstance(event, Committed):
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
    """Continues when a watcher raises, and logs it once."""

    def __init__(self, watcher: Watcher[E]) -> None:
        self._watcher = watcher
        self._is_in_trouble = False

    def see(self, event: E) -> None:
        try:
            self._watcher.see(event)
        except Exception:
            if not self._is_in_trouble:
                log.exception("the work cannot be shown in Dagster, and continues all the same")
            self._is_in_trouble = True
        else:
            self._is_in_trouble = False


class _Events(Generic[E]):
    """Passes events from the thread of the work to the thread of the watcher."""

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
        log: Logs a line.
        seconds_behind: Seconds that the copy is behind; None if unknown.
        clock: Monotonic seconds.
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
        """Logs the progress, if the interval has passed."""
        if isinstance(event, ProgressRead) and self._clock() >= self._next:
            self._next = self._clock() + LOG_SECONDS
            behind = self._seconds_behind(event.progress)
            self._log(describe(event.progress, self._before, LOG_SECONDS, behind))
            self._before = event.progress

    def is_over(self) -> bool:
        """A copy with an end ends by itself."""
        return False


def describe(progress: Progress, before: Progress | None, seconds: float, behind: float | None) -> str:
    """One line about a run's progress.

    Args:
        progress: The present progress.
        before: The progress at the last line; None at the first one.
        seconds: Seconds since the last line.
        behind: Seconds that the copy is behind; None if unknown.
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
