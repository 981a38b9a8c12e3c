"""Tells which instances are between two of their generations, and will soon claim again what they have released.

An instance that has something new to copy, or whose Spark job has failed, ends its slots, announces itself once more,
reads the commit log, and only then claims. Another instance that took its partitions meanwhile would have to end its
own slots for that, and so invite the next one to do the same. This is a courtesy: fencing keeps the copy safe without
it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from k2k_assets.control.assignment_state import Assignments

# Longest time from the announcement to the first claim: a Spark job starts, and the commit log is read.
_LONGEST_SECONDS = 15.0


class RestartingPeers:
    """Tells which instances will soon claim. Times count from when a record was read, on the own clock.

    Args:
        state: State of the assignment topic, which the owner updates.
        clock: Seconds that only rise.
    """

    def __init__(self, state: Assignments, clock: Callable[[], float] = time.monotonic) -> None:
        self._state = state
        self._clock = clock
        self._since: dict[tuple[str, int], float] = {}

    def note(self) -> None:
        """Notes the time of records that a read brought; the owner calls it after each read."""
        now = self._clock()
        events = [("again", generation) for generation in self._state.again]
        events += [("announced", generation) for generation in self._state.instances]
        self._since = {event: self._since.get(event, now) for event in events}

    def will_claim(self, generation: int) -> bool:
        """Whether a generation was announced a short while ago, and some of its slots have claimed nothing yet."""
        state = self._state
        instance = state.instances.get(generation)
        if instance is None or generation in state.stops or not self._is_recent("announced", generation):
            return False
        return any((generation, slot) not in state.begun for slot in range(instance.slots))

    def comes_back(self, generation: int) -> bool:
        """Whether the instance of a generation is about to claim again, under a newer generation."""
        name = self._state.names.get(generation)
        newest = max((g for g, instance in self._state.instances.items() if instance.instance == name), default=-1)
        if newest == generation:
            return generation in self._state.again and self._is_recent("again", generation)
        return newest > generation and self.will_claim(newest)

    def _is_recent(self, what: str, generation: int) -> bool:
        since = self._since.get((what, generation))
        return since is not None and self._clock() - since < _LONGEST_SECONDS
