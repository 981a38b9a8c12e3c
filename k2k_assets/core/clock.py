"""The time, for whom it decides: a test passes a clock of its own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time, and lets it pass."""

    def monotonic(self) -> float:
        """Seconds that only rise, since some moment."""

    def time(self) -> float:
        """Seconds since the epoch, as the machine has them."""

    def sleep(self, seconds: float, /) -> None:
        """Waits."""


SYSTEM_CLOCK: Clock = time
"""The module itself: its functions are called with nothing in between."""
