"""Waits for a function of the user, until the session has to end."""

from __future__ import annotations

from k2k_assets.core.clock import Clock

# How long a function may go on when its session has to end.
_SECONDS = 10.0


class FunctionAbandoned(Exception):
    """A function of the user runs still, and the session has to end."""


class FunctionWait:
    """Tells when to wait for a function no more.

    Args:
        clock: The session's clock.

    Attributes:
        has_waited: Whether functions of the last poll ran for longer than an interval.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = 0.0
        self._ends: float | None = None
        self.has_waited = False

    def seconds(self) -> float:
        """For how long functions have been waited for since the last poll; notes the first time that this is asked."""
        now = self._clock.monotonic()
        if not self.has_waited:
            self.has_waited, self._began = True, now
        return now - self._began

    @property
    def has_to_end(self) -> bool:
        """Whether somebody waits for the session to end."""
        return self._ends is not None

    def go_on(self, has_to_end: bool) -> None:
        """Called now and then while a function runs.

        Args:
            has_to_end: Whether somebody waits for the session to end.

        Raises:
            FunctionAbandoned: The function had its time.
        """
        now = self._clock.monotonic()
        if not has_to_end:
            self._ends = None
        elif self._ends is None:
            self._ends = now + _SECONDS
        elif now >= self._ends:
            raise FunctionAbandoned
