"""Ctrl-C and SIGTERM: the first ends the work at a commit, the second ends the process."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from types import FrameType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LEFT_AT_ONCE = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SHOW_CURSOR = "\x1b[?25h"
# A signal just before the main thread begins to wait is handled at the end of this interval.
_POLL_SECONDS = 0.2


@contextmanager
def stop_on_signals(before_leaving: Callable[[], object] = lambda: None) -> Iterator[threading.Event]:
    """An event that the first SIGINT or SIGTERM sets; the second ends the process at once with 130.

    Enter it on the main thread.

    Args:
        before_leaving: Called at the second signal, between any two steps of the program; it must not wait.
    """
    stop = threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            _say(_SHOW_CURSOR, on_terminal=True)
            before_leaving()
            os._exit(LEFT_AT_ONCE)
        stop.set()
        _say("\nStopping after the last commit; once more leaves at once.\n")

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Makes SIGTERM raise `KeyboardInterrupt`, as Ctrl-C does. Enter it on the main thread."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run_aside(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Runs a function in its own thread, and returns its result or raises its error.

    Python handles signals on the main thread, between its own steps. Here the main thread only waits, so a call into
    Kafka or Spark delays no signal.
    """
    with ThreadPoolExecutor(1, "k2k-command") as worker:
        running = worker.submit(function, *arguments, **named)
        while not wait([running], _POLL_SECONDS).done:
            pass
        return running.result()


def _say(text: str, *, on_terminal: bool = False) -> None:
    """Writes to standard error; with `on_terminal` only if that is a terminal."""
    # The reader may be gone, and an error here would end the work in the middle.
    with suppress(OSError, ValueError):
        # The signal may have interrupted a write of the stream object, so this does not use it.
        number = sys.__stderr__.fileno() if sys.__stderr__ else 2
        if os.isatty(number) or not on_terminal:
            os.write(number, text.encode())
