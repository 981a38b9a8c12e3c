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
# A signal that comes just before the main thread begins to wait is handled when it looks up.
_POLL_SECONDS = 0.2


@contextmanager
def stop_on_signals(before_leaving: Callable[[], object] = lambda: None) -> Iterator[threading.Event]:
    """An event that the first SIGINT or SIGTERM sets; the second leaves at once with 130.

    To be entered on the main thread.

    Args:
        before_leaving: Called at the second one, between any two steps of the program; it must not wait.
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
    """SIGTERM ends a command as Ctrl-C does: by a `KeyboardInterrupt`. To be entered on the main thread."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run_aside(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Runs a function in a thread of its own, and returns or raises what it does.

    Signals are handled on the main thread and only between its own steps: it has none but to wait, so that a call into
    Kafka or Spark holds no signal back.
    """
    with ThreadPoolExecutor(1, "k2k-command") as worker:
        running = worker.submit(function, *arguments, **named)
        while not wait([running], _POLL_SECONDS).done:
            pass
        return running.result()


def _say(text: str, *, on_terminal: bool = False) -> None:
    """Writes to standard error; with `on_terminal` only if that is one."""
    # Nobody may be there to read it, and what is raised here would end the work in the middle.
    with suppress(OSError, ValueError):
        # Not through a stream object: the signal may have come in the middle of its own write.
        number = sys.__stderr__.fileno() if sys.__stderr__ else 2
        if os.isatty(number) or not on_terminal:
            os.write(number, text.encode())
