"""Tells a log from which nothing comes because nothing is written from one whose client stands still without a word."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.answers import in_thread

# After so long without a record it is asked where the log ends, and again after each further time.
_SILENCE_SECONDS = 30.0


class EndProbe:
    """Asks where a log ends from which nothing comes; nobody waits for the answer.

    Args:
        ask: Returns the end of each partition; called in a thread.
        clock: Seconds that only rise.
    """

    def __init__(self, ask: Callable[[], Mapping[TopicPartition, int]], clock: Callable[[], float]) -> None:
        self._ask = ask
        self._clock = clock
        self.asked: Future[Mapping[TopicPartition, int]] | None = None
        self.heard()

    def heard(self) -> None:
        """Something came."""
        self._asks_after = self._clock() + _SILENCE_SECONDS

    def ends(self) -> Mapping[TopicPartition, int]:
        """The answer, once, when there is one; raises what asking raised."""
        if self.asked is not None and self.asked.done():
            asked, self.asked = self.asked, None
            return asked.result()
        if self.asked is None and self._clock() >= self._asks_after:
            self.heard()
            self.asked = in_thread(self._ask)
        return {}
