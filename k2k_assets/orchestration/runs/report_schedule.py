"""Decides when a continuous run reports its topics, or its consumer groups, to Dagster. Pure.

An event takes some kilobytes of Dagster's database, until the maintenance job deletes it. So the time between two
reports depends on the allowed events per day, and on how many topics or groups move. A topic's event has a row for each
partition, up to a limit, and the commit log's event names each topic. If these are many, an event counts as several.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from k2k_assets.orchestration.metadata import MOST_ROWS_AGAIN

SHORTEST_SECONDS = 30.0
_DAY_SECONDS = 86_400.0
# A materialization of the copy, and an observation of its source.
_EVENTS_PER_TOPIC = 2
# The two checks of a topic: once in a run, and each costs half as much as another event.
_EVENTS_OF_CHECKS = 1
# The event of the commit log, or of the positions of all groups.
_EVENTS_PER_REPORT = 1
# A partition has a row in each of these events, together 0.7 KB; a whole event takes 6 KB.
_PARTITIONS_PER_EVENT = 8
# A materialization; checks have their own pace.
_EVENTS_PER_GROUP = 1
# Topics in one report. With very many topics they are so many that the commit log is half of the cost.
FEWEST_AT_ONCE = 5
_TOPICS_PER_ONE_AT_ONCE = 60
# Each topic that the commit log names as an input takes 0.2 KB.
_INPUTS_PER_EVENT = 30

Positions = tuple[int, ...]
State = TypeVar("State", bound=Hashable)


def report_interval(events_per_day: int, topics: Collection[Positions], of: int = 0) -> float:
    """Seconds between two reports of topics.

    Args:
        events_per_day: Most events per day, on average.
        topics: Positions of the topics to report.
        of: Number of all topics, which the event of the commit log names.
    """
    return max(SHORTEST_SECONDS, _seconds(events_per_day, _events_of_topics(map(len, topics), of)))


def group_report_interval(events_per_day: int, groups: Collection[Hashable], of: int = 0) -> float:
    """Seconds between two reports of consumer groups.

    Args:
        events_per_day: Most events per day, on average.
        groups: The groups to report.
        of: Number of all groups, which has no effect.
    """
    return max(SHORTEST_SECONDS, _seconds(events_per_day, _events_of_groups(len(groups))))


def run_window(window: float, events_per_day: int, partitions: Iterable[int]) -> float:
    """Window of a run that copies, in seconds. Each run reports all topics once, so many topics need a longer window.

    So the reports at the start of runs are no more than the allowed ones.

    Args:
        window: `sync.window`, the shortest window.
        events_per_day: Most events per day.
        partitions: Number of partitions of each topic.
    """
    counts = list(partitions)
    events = _events_of_topics(counts, len(counts)) + len(counts) * _EVENTS_OF_CHECKS
    return max(window, _seconds(events_per_day, events))


def group_run_window(window: float, events_per_day: int, groups: int) -> float:
    """Window of a run that moves groups, in seconds, like `run_window`.

    Args:
        window: `sync.window`, the shortest window.
        events_per_day: Most events per day.
        groups: Number of groups.
    """
    return max(window, _seconds(events_per_day, _events_of_groups(groups)))


def _events_of_topics(partitions: Iterable[int], of: int) -> float:
    rows = [min(count, MOST_ROWS_AGAIN) for count in partitions]
    whole = _EVENTS_PER_REPORT + of // _INPUTS_PER_EVENT
    return len(rows) * _EVENTS_PER_TOPIC + whole + sum(rows) / _PARTITIONS_PER_EVENT


def _events_of_groups(groups: int) -> float:
    return groups * _EVENTS_PER_GROUP + _EVENTS_PER_REPORT


def _seconds(events_per_day: int, events: float) -> float:
    return events * _DAY_SECONDS / events_per_day


class ReportSchedule(Generic[State]):
    """Decides which topics, or groups, to report.

    Args:
        interval: Seconds between two reports, from the states of those to report and the number of all.
    """

    def __init__(self, interval: Callable[[Collection[State], int], float]) -> None:
        self._interval = interval
        self._reported: dict[str, State] = {}
        self._when: dict[str, float] = {}
        self._last: float | None = None

    def due(self, states: Mapping[str, State], now: float) -> list[str]:
        """Returns those to report now: all at the start, then after each interval a few of those that have moved.

        Those with the oldest report come first. Reports of all at once would be rarer: with a thousand moving topics,
        the state of the whole pipeline, which each report includes, would be hours old.

        Args:
            states: State of each topic or group.
            now: Monotonic seconds.
        """
        new = sorted(states.keys() - self._reported.keys())
        if new:
            return new
        moved = sorted(
            (name for name, state in states.items() if self._reported[name] != state),
            key=lambda name: (self._when.get(name, 0.0), name),
        )[: max(FEWEST_AT_ONCE, len(states) // _TOPICS_PER_ONE_AT_ONCE)]
        pause = self._interval([states[name] for name in moved], len(states))
        if not moved or (self._last is not None and now < self._last + pause):
            return []
        return moved

    def reported(self, states: Mapping[str, State], now: float) -> None:
        """Notes a report.

        Args:
            states: States of the topics or groups in it.
            now: Monotonic seconds.
        """
        self._reported.update(states)
        self._when.update(dict.fromkeys(states, now))
        self._last = now

    def begin_anew(self) -> None:
        """Makes all of them due again."""
        self._reported.clear()
