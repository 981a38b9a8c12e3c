"""Runs `replicate` from a Dagster step: logs its progress, and ends it at a commit when the run is terminated."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait

from k2k_assets.replication.driver.events import Listener, on_progress
from k2k_assets.replication.driver.outcome import Outcome
from k2k_assets.replication.driver.progress import Progress

LOG_SECONDS = 5.0
# A slot commits and leaves within seconds; this bounds the wait for one that cannot.
STOP_SECONDS = 60.0

Copy = Callable[[threading.Event, Listener], Outcome]


def watched(copy: Copy, log: Callable[[str], None]) -> Outcome:
    """Runs a copy in a thread while this one logs.

    Dagster interrupts the main thread. A copy that ran there would be torn out of a call; so it runs beside it, is told
    to stop, and commits what it has before the interruption goes on.

    Args:
        copy: Gets the stop event and the listener.
        log: Called about every `LOG_SECONDS` seconds.

    Raises:
        K2KError: Whatever the copy raises.
    """
    stop = threading.Event()
    newest: list[Progress] = []
    logged: Progress | None = None
    copying: Future[Outcome] = Future()

    def run() -> None:
        try:
            copying.set_result(copy(stop, on_progress(lambda progress: newest.__setitem__(slice(None), [progress]))))
        except BaseException as error:
            copying.set_exception(error)

    thread = threading.Thread(target=run, name="k2k-copy", daemon=True)
    try:
        thread.start()
        while wait([copying], timeout=LOG_SECONDS).not_done:
            if newest and newest[0] is not logged:
                log(describe(newest[0], logged))
                logged = newest[0]
        return copying.result()
    except BaseException:
        stop.set()
        if thread.ident is not None:
            wait([copying], timeout=STOP_SECONDS)
        raise


def describe(progress: Progress, before: Progress | None = None) -> str:
    """One line on a run's progress."""
    partitions = progress.partitions.values()
    records = sum(p.records for p in partitions)
    seconds = max(time.monotonic() - progress.started, 0.001)
    lag = sum(p.lag for p in partitions)
    held = sum(p.held_since is not None for p in partitions)
    stopped = sorted({tp.topic for tp, p in progress.partitions.items() if p.stopped})
    words = [f"{records:,} records copied in {seconds:.0f} s, {lag:,} source offsets to go"]
    if before is not None:
        words.append(f"{records - sum(p.records for p in before.partitions.values()):,} since the last line")
    if held:
        words.append(f"{held} partitions held back by open transactions on the source")
    if stopped:
        words.append(f"stopped: {', '.join(stopped)}")
    return "; ".join(words)
