"""When a run that stays for long reports its topics, or its consumer groups, to Dagster. Pure.

An event costs some kilobytes of Dagster's database, and nothing removes it but a job of the user's. So the time between
two reports follows from how many events a day may cost, and from how many topics or groups move.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

SHORTEST_SECONDS = 30.0
_DAY_SECONDS = 86_400.0
# A materialization of the copy, and an observation of its source.
_EVENTS_PER_TOPIC = 2
# The commit log's own.
_EVENTS_PER_REPORT = 1
# A materialization; its check comes at a pace of its own.
_EVENTS_PER_GROUP = 1

Positions = tuple[int, ...]


def report_interval(events_per_day: int, topics: int) -> float:
    """Seconds between two reports of topics.

    Args:
        events_per_day: How many events they may be, in the long run.
        topics: How many topics move.
    """
    return _interval(events_per_day, topics * _EVENTS_PER_TOPIC + _EVENTS_PER_REPORT)


def group_report_interval(events_per_day: int, groups: int) -> float:
    """Seconds between two reports of consumer groups; the arguments as in `report_interval`."""
    return _interval(events_per_day, groups * _EVENTS_PER_GROUP)


def _interval(events_per_day: int, events: int) -> float:
    return max(SHORTEST_SECONDS, events * _DAY_SECONDS / events_per_day)


class ReportSchedule:
    """Says which topics, or groups, are to be reported.

    Args:
        interval: Seconds between two reports in which so many of them have moved.
    """

    def __init__(self, interval: Callable[[int], float]) -> None:
        self._interval = interval
        self._reported: dict[str, Hashable] = {}
        self._last: float | None = None

    def due(self, states: Mapping[str, Hashable], now: float) -> list[str]:
        """Those to report now: each once at the start, then those that moved, when it is time.

        Args:
            states: Where each of them stands.
            now: Seconds that only rise.
        """
        new = sorted(states.keys() - self._reported.keys())
        if new:
            return new
        moved = sorted(name for name, state in states.items() if self._reported[name] != state)
        if not moved or (self._last is not None and now < self._last + self._interval(len(moved))):
            return []
        return moved

    def reported(self, states: Mapping[str, Hashable], now: float) -> None:
        """Notes what was reported.

        Args:
            states: Of those that were.
            now: Seconds that only rise.
        """
        self._reported.update(states)
        self._last = now

    def begin_anew(self) -> None:
        """Has all of them reported once more."""
        self._reported.clear()
