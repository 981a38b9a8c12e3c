"""How often a function may end its process for a topic, until the topic is stopped."""

from __future__ import annotations

from collections import defaultdict, deque

from k2k_assets.core.clock import SYSTEM_CLOCK, Clock

MOST_CRASHES_OF_A_TOPIC = 20
"""More than the search for one record in a batch costs, which goes on in halves."""
MINUTES = 10


class CrashLimit:
    """Counts how often the process of functions has ended, topic by topic, in the last minutes.

    Args:
        clock: The clock.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._times: defaultdict[str, deque[float]] = defaultdict(deque)

    def is_reached(self, topic: str) -> bool:
        """Notes a crash; returns whether it was one too many. Then the count begins anew."""
        now, times = self._clock.monotonic(), self._times[topic]
        times.append(now)
        while times[0] <= now - 60 * MINUTES:
            times.popleft()
        if len(times) < MOST_CRASHES_OF_A_TOPIC:
            return False
        del self._times[topic]
        return True
