"""The clock of code whose decisions depend on time, so that a test can pass a clock of its own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time, and lets it pass."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment; they only rise."""

    def time(self) -> float:
        """Seconds since the epoch by the machine's clock, which may be set back."""

    def sleep(self, seconds: float, /) -> None:
        """Lets so many seconds pass."""


SYSTEM_CLOCK: Clock = time
"""The module `time` itself, so that no wrapper costs time."""
