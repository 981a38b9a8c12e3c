"""The window of a run, after which the next run takes over."""

from __future__ import annotations

import time
from collections.abc import Callable

from k2k_assets.core.words import duration

# Longest time that a run continues after its window, in which the next run can take over; for a shorter window, as
# long as the window.
LINGER_SECONDS = 120.0


class RunWindow:
    """The window of a run; it begins with this object.

    Args:
        seconds: Length of the window.
        clock: Monotonic seconds.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self.started = clock()
        self._clock = clock

    def is_long_over(self) -> bool:
        """Whether the next run should have taken over by now."""
        return self._clock() - self.started >= self.seconds + min(LINGER_SECONDS, self.seconds)

    def ending(self, handed_over_to: str) -> str:
        """The reason why the run ended.

        Args:
            handed_over_to: A description of the run that has taken over; empty if none has.
        """
        if handed_over_to:
            return f"handed over: {handed_over_to}"
        return f"the window of {duration(self.seconds)} is over, and no other run has taken over"
