"""Tells a log from which nothing comes because nothing is written from one whose client stands still without a word."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from k2k_assets.kafka.answers import in_thread

T = TypeVar("T")

# After so long without a record it is asked where the log ends, and again after each further time.
_SILENCE_SECONDS = 30.0


class EndProbe(Generic[T]):
    """Asks about a log from which nothing comes; nobody waits for the answer.

    Args:
        question: Returns what is to be known; called in a thread.
        clock: Seconds that only rise.
    """

    def __init__(self, question: Callable[[], T], clock: Callable[[], float]) -> None:
        self._question = question
        self._clock = clock
        self.asked: Future[T] | None = None
        self.heard()

    def heard(self) -> None:
        """Something came."""
        self._asks_after = self._clock() + _SILENCE_SECONDS

    def ask(self) -> None:
        """Asks at the next look, however short the silence."""
        self._asks_after = self._clock()

    def answer(self) -> T | None:
        """The answer, once, when there is one; raises what asking raised."""
        if self.asked is not None and self.asked.done():
            asked, self.asked = self.asked, None
            return asked.result()
        if self.asked is None and self._clock() >= self._asks_after:
            self.heard()
            self.asked = in_thread(self._question)
        return None
