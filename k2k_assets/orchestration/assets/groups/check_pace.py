"""Decides when a continuous run compares a consumer group by content. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple

# Of very many groups only a part is compared at a time. Seconds until the next part.
PAUSE_SECONDS = 30.0


class _Checked(NamedTuple):
    state: Hashable
    passed: bool
    at: float


class CheckPace:
    """Checks each group at the start; then, each `interval`, those that have moved since or did not pass.

    Args:
        interval: Seconds between two checks of a group.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._checked: dict[str, _Checked] = {}
        self._last: float | None = None

    def due(self, states: Mapping[str, Hashable], now: float) -> list[str]:
        """Returns the groups to check now.

        Args:
            states: Positions of each group.
            now: Monotonic seconds.
        """
        if self._last is not None and now < self._last + min(PAUSE_SECONDS, self._interval):
            return []
        return sorted(name for name, state in states.items() if self._is_due(name, state, now))

    def checked(self, passed: Mapping[str, bool], states: Mapping[str, Hashable], now: float) -> None:
        """Notes which groups were checked, and whether each passed; also notes a check without groups."""
        self._last = now
        self._checked.update((name, _Checked(states[name], good, now)) for name, good in passed.items())

    def forget(self, name: str) -> None:
        """Makes a group due again."""
        self._checked.pop(name, None)

    def _is_due(self, name: str, state: Hashable, now: float) -> bool:
        if (checked := self._checked.get(name)) is None:
            return True
        return (state != checked.state or not checked.passed) and now >= checked.at + self._interval
