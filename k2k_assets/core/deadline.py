"""Deadlines: all blocking calls of an operation share one, so that their sum is bounded."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Deadline:
    """A point in time that all steps of an operation share.

    Args:
        seconds: How long from now.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Seconds left, never below zero."""
        return max(0.0, self._end - time.monotonic())

    def expired(self) -> bool:
        """Whether no time is left."""
        return time.monotonic() >= self._end


def wait_until(condition: Callable[[], T], timeout: float, what: str, interval: float = 0.05) -> T:
    """Calls `condition` until it returns something true, and returns that.

    Args:
        condition: Called every `interval` seconds.
        timeout: Seconds until giving up.
        what: What is waited for, for the error: "orders to be visible on the target".
        interval: Seconds between two calls.

    Raises:
        TimeoutError: The condition stayed false.
    """
    deadline = Deadline(timeout)
    while True:
        answer = condition()
        if answer:
            return answer
        if deadline.expired():
            raise TimeoutError(f"waited {timeout:g} s for {what}")
        time.sleep(min(interval, deadline.remaining()))
