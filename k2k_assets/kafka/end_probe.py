"""Finds out whether a silent log is idle or its client has hung."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from k2k_assets.kafka.answers import in_thread

T = TypeVar("T")

# After so many seconds without a record the probe asks where the log ends, and again after each further so many.
_SILENCE_SECONDS = 30.0


class EndProbe(Generic[T]):
    """Asks where a silent log ends, in a thread, so that the reader never waits for the answer.

    Args:
        question: Asks the cluster; called in a thread.
        clock: Seconds that only rise.
    """

    def __init__(self, question: Callable[[], T], clock: Callable[[], float]) -> None:
        self._question = question
        self._clock = clock
        self.asked: Future[T] | None = None
        self.heard()

    def heard(self) -> None:
        """Notes that a record came: the silence begins anew."""
        self._asks_after = self._clock() + _SILENCE_SECONDS

    def ask(self) -> None:
        """Lets the next call of `answer` ask, however short the silence."""
        self._asks_after = self._clock()

    def answer(self) -> T | None:
        """Asks if the log has been silent for long; returns the answer once when it is there, else None.

        It raises what the question raised.
        """
        if self.asked is not None and self.asked.done():
            asked, self.asked = self.asked, None
            return asked.result()
        if self.asked is None and self._clock() >= self._asks_after:
            self.heard()
            self.asked = in_thread(self._question)
        return None
