"""Generators that wait for sockets, and the loops that run them: one thread, `poll`, no call that blocks.

A slot has a loop for its source and one for its sink. While one of them waits, the tasks of the other go on: records
are fetched while a transaction is committed.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

READ, WRITE = select.POLLIN, select.POLLOUT
_LONGEST = 3600.0
_MEANWHILE = 0.1


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
    """Runs tasks, in turns.

    Args:
        beside: Loops of the same thread, whose tasks go on while this one runs, and the other way round; it joins them
            until it is closed. None: it is alone.

    Attributes:
        went_round: When it went round last, monotonic seconds.
    """

    def __init__(self, beside: list[Loop] | None = None) -> None:
        self.went_round = float("-inf")
        self._waiting: dict[Task[object], Wait] = {}
        self._failure: Exception | None = None
        self._all = [] if beside is None else beside
        self._all.append(self)

    def start(self, task: Task[object]) -> None:
        """Lets a task run up to its first wait; after that `run` does."""
        self._resume(task)

    def stop(self) -> None:
        """Ends all tasks where they wait."""
        waiting, self._waiting, self._failure = self._waiting, {}, None
        for task in waiting:
            task.close()

    def close(self) -> None:
        """Ends all tasks, and leaves the loops beside it."""
        self.stop()
        if self in self._all:
            self._all.remove(self)

    def run(self, seconds: float, done: Callable[[], bool]) -> None:
        """Goes round until `done`, at least once and for `seconds` at most.

        Raises:
            Exception: Whatever a task of this loop raises, also while another loop ran; its other tasks go on with the
                next call.
        """
        deadline = time.monotonic() + seconds
        while True:
            left = deadline - time.monotonic()
            self._round(self._all, 0.0 if done() else max(0.0, left))
            if left <= 0 or done():
                return

    def complete(self, task: Task[T], meanwhile: Callable[[], None] | None = None) -> T:
        """Runs one task to its end, and none of the others of this loop; its own deadlines bound it.

        Args:
            task: The task.
            meanwhile: Called about ten times a second while it waits; what it raises ends the task.
        """
        found: list[T] = []

        def kept() -> Task[None]:
            found.append((yield from task))

        alone = Loop()
        longest = _LONGEST if meanwhile is None else _MEANWHILE
        try:
            alone._resume(kept())
            while not found:
                alone._round([alone, *(loop for loop in self._all if loop is not self)], longest)
                if meanwhile is not None:
                    meanwhile()
        finally:
            alone.stop()
        return found[0]

    def _round(self, loops: Sequence[Loop], seconds: float) -> None:
        """Goes round once, through the tasks of several loops; waits up to `seconds` if none is due."""
        self._raise_failure()
        now = time.monotonic()
        polled, by_number = select.poll(), {}
        due: list[tuple[Loop, Task[object]]] = []
        for loop in loops:
            loop.went_round = now
            for task, wait in loop._waiting.items():
                if now >= wait.until or (wait.ready is not None and wait.ready()):
                    due.append((loop, task))
                    continue
                seconds = min(seconds, wait.until - now)
                if wait.sock is not None:
                    number = wait.sock.fileno()
                    by_number[number] = loop, task
                    polled.register(number, wait.events)
        for number, _ in polled.poll(0 if due else _milliseconds(seconds)):
            due.append(by_number[number])
        for loop, task in due:
            if task in loop._waiting:
                loop._go_on(task)
        self._raise_failure()

    def _go_on(self, task: Task[object]) -> None:
        """Resumes a task; what it raises is kept for the caller of its own loop."""
        try:
            self._resume(task)
        except Exception as failure:
            self._failure = self._failure or failure

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

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
