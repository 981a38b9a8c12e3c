"""How long a run stays that the next one takes over from."""

from __future__ import annotations

import time
from collections.abc import Callable

from k2k_assets.core.words import duration

# How long it goes on after its window, or as long again as a shorter one lasted: nobody may be there to take over.
LINGER_SECONDS = 120.0


class RunWindow:
    """The window of a run, which begins when this is made.

    Args:
        seconds: After which the next run is to take over.
        clock: Seconds that only rise.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self.started = clock()
        self._clock = clock

    def is_long_over(self) -> bool:
        """Whether the next run should have taken over by now."""
        return self._clock() - self.started >= self.seconds + min(LINGER_SECONDS, self.seconds)

    def ending(self, handed_over_to: str) -> str:
        """Why the run ended, in words.

        Args:
            handed_over_to: What is said of who has taken over; empty if nobody has.
        """
        if handed_over_to:
            return f"handed over: {handed_over_to}"
        return f"the window of {duration(self.seconds)} is over, and no other run has taken over"
