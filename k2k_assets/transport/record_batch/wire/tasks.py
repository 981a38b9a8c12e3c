"""Generators that wait for sockets, and the loop that runs them: one thread, `poll`, no call that blocks."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

READ, WRITE = select.POLLIN, select.POLLOUT
_LONGEST = 3600.0


@dataclass(slots=True)
class Wait:
    """What a task waits for: whatever comes first.

    Attributes:
        until: When it goes on in any case, monotonic seconds.
        sock: A socket that gets ready.
        events: `READ` or `WRITE`.
        ready: Tells whether it may go on; asked when the loop goes round.
    """

    until: float
    sock: socket.socket | None = None
    events: int = 0
    ready: Callable[[], bool] | None = None


Task = Generator[Wait, None, T]
"""Yields what it waits for; the loop resumes it then, and it looks for itself which of it has come."""


class Loop:
    """Runs tasks, in turns."""

    def __init__(self) -> None:
        self._waiting: dict[Task[object], Wait] = {}

    def start(self, task: Task[object]) -> None:
        """Lets a task run up to its first wait; after that `run` does."""
        self._resume(task)

    def stop(self) -> None:
        """Ends all tasks where they wait."""
        waiting, self._waiting = self._waiting, {}
        for task in waiting:
            task.close()

    def run(self, seconds: float, done: Callable[[], bool]) -> None:
        """Goes round until `done`, at least once and for `seconds` at most.

        Raises:
            Exception: Whatever a task raises; the others go on with the next call.
        """
        deadline = time.monotonic() + seconds
        while True:
            left = deadline - time.monotonic()
            self._round(0.0 if done() else max(0.0, left))
            if left <= 0 or done():
                return

    def complete(self, task: Task[T]) -> T:
        """Runs one task alone to its end; its own deadlines bound it."""
        try:
            wait = next(task)
            while True:
                polled = select.poll()
                if wait.sock is not None:
                    polled.register(wait.sock, wait.events)
                if wait.ready is None or not wait.ready():
                    polled.poll(_milliseconds(wait.until - time.monotonic()))
                wait = task.send(None)
        except StopIteration as ended:
            found: T = ended.value
            return found
        finally:
            task.close()

    def _round(self, seconds: float) -> None:
        now = time.monotonic()
        polled, by_number = select.poll(), {}
        due: list[Task[object]] = []
        for task, wait in self._waiting.items():
            if now >= wait.until or (wait.ready is not None and wait.ready()):
                due.append(task)
                continue
            seconds = min(seconds, wait.until - now)
            if wait.sock is not None:
                number = wait.sock.fileno()
                by_number[number] = task
                polled.register(number, wait.events)
        for number, _ in polled.poll(0 if due else _milliseconds(seconds)):
            due.append(by_number[number])
        for task in due:
            if task in self._waiting:
                self._resume(task)

    def _resume(self, task: Task[object]) -> None:
        self._waiting.pop(task, None)
        try:
            self._waiting[task] = next(task)
        except StopIteration:
            return


def _milliseconds(seconds: float) -> float:
    # Rounded up: a wait that ends a little too early would go round without need.
    return max(0.0, min(seconds, _LONGEST)) * 1000 + (0.5 if seconds > 0 else 0.0)


def pause(seconds: float) -> Task[None]:
    """Waits so long."""
    yield Wait(time.monotonic() + seconds)
