"""When a run that stays for long reports its topics, or its consumer groups, to Dagster. Pure.

An event costs some kilobytes of Dagster's database, until the maintenance job deletes it. So the time between two
reports follows from how many events a day may cost, and from how many topics or groups move. Events of topics hold a
row a partition, up to a limit: where these are many, an event counts as several.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Generic, TypeVar

from k2k_assets.orchestration.metadata import MOST_ROWS_AGAIN

SHORTEST_SECONDS = 30.0
_DAY_SECONDS = 86_400.0
# A materialization of the copy, and an observation of its source.
_EVENTS_PER_TOPIC = 2
# That of the whole pipeline: of the commit log, or of the positions of all groups.
_EVENTS_PER_REPORT = 1
# A row in each of these, together 0.7 KB, beside the 6 KB of a whole event.
_PARTITIONS_PER_EVENT = 8
# A materialization; its check comes at a pace of its own.
_EVENTS_PER_GROUP = 1
_MOST_AT_ONCE = 5

Positions = tuple[int, ...]
State = TypeVar("State", bound=Hashable)


def report_interval(events_per_day: int, topics: Collection[Positions]) -> float:
    """Seconds between two reports of topics.

    Args:
        events_per_day: How many events they may be, in the long run.
        topics: Those that move, by their positions.
    """
    rows = sum(min(len(positions), MOST_ROWS_AGAIN) for positions in topics)
    return _interval(
        events_per_day, len(topics) * _EVENTS_PER_TOPIC + _EVENTS_PER_REPORT + rows / _PARTITIONS_PER_EVENT
    )


def group_report_interval(events_per_day: int, groups: Collection[Hashable]) -> float:
    """Seconds between two reports of consumer groups.

    Args:
        events_per_day: How many events they may be, in the long run.
        groups: Those that move.
    """
    return _interval(events_per_day, len(groups) * _EVENTS_PER_GROUP + _EVENTS_PER_REPORT)


def _interval(events_per_day: int, events: float) -> float:
    return max(SHORTEST_SECONDS, events * _DAY_SECONDS / events_per_day)


class ReportSchedule(Generic[State]):
    """Says which topics, or groups, are to be reported.

    Args:
        interval: Seconds between two reports, by the states of those that have moved.
    """

    def __init__(self, interval: Callable[[Collection[State]], float]) -> None:
        self._interval = interval
        self._reported: dict[str, State] = {}
        self._when: dict[str, float] = {}
        self._last: float | None = None

    def due(self, states: Mapping[str, State], now: float) -> list[str]:
        """Those to report now: each once at the start, then of those that moved a few at a time, when it is time.

        Whose last report is the oldest comes first. All at once would be rarer: what is shown of the whole pipeline,
        which goes with each report, would be hours old where a thousand topics move.

        Args:
            states: Where each of them stands.
            now: Seconds that only rise.
        """
        new = sorted(states.keys() - self._reported.keys())
        if new:
            return new
        moved = sorted(
            (name for name, state in states.items() if self._reported[name] != state),
            key=lambda name: (self._when.get(name, 0.0), name),
        )[:_MOST_AT_ONCE]
        pause = self._interval([states[name] for name in moved])
        if not moved or (self._last is not None and now < self._last + pause):
            return []
        return moved

    def reported(self, states: Mapping[str, State], now: float) -> None:
        """Notes what was reported.

        Args:
            states: Of those that were.
            now: Seconds that only rise.
        """
        self._reported.update(states)
        self._when.update(dict.fromkeys(states, now))
        self._last = now

    def begin_anew(self) -> None:
        """Has all of them reported once more."""
        self._reported.clear()
