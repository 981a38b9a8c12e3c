"""When a run that stays for long reports its topics, or its consumer groups, to Dagster. Pure.

An event costs some kilobytes of Dagster's database, until the maintenance job deletes it. So the time between two
reports follows from how many events a day may cost, and from how many topics or groups move. Events of topics hold a
row a partition, up to a limit, and that of the commit log names each topic that it was made from: where these are many,
an event counts as several.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from k2k_assets.orchestration.metadata import MOST_ROWS_AGAIN

SHORTEST_SECONDS = 30.0
_DAY_SECONDS = 86_400.0
# A materialization of the copy, and an observation of its source.
_EVENTS_PER_TOPIC = 2
# Of the check of a topic that is copied on: once in a run, and half as large as the others.
_EVENTS_PER_VERDICT = 0.5
# That of the whole pipeline: of the commit log, or of the positions of all groups.
_EVENTS_PER_REPORT = 1
# A row in each of these, together 0.7 KB, beside the 6 KB of a whole event.
_PARTITIONS_PER_EVENT = 8
# A materialization; its check comes at a pace of its own.
_EVENTS_PER_GROUP = 1
# Of those that moved. Where there are very many topics, so many go with the commit log that it is half of the cost.
FEWEST_AT_ONCE = 5
_TOPICS_PER_ONE_AT_ONCE = 60
# A topic that the commit log was made from: 0.2 KB.
_INPUTS_PER_EVENT = 30

Positions = tuple[int, ...]
State = TypeVar("State", bound=Hashable)


def report_interval(events_per_day: int, topics: Collection[Positions], of: int = 0) -> float:
    """Seconds between two reports of topics.

    Args:
        events_per_day: How many events they may be, in the long run.
        topics: Those that are reported, by their positions.
        of: How many topics there are, all of which the commit log names.
    """
    return max(SHORTEST_SECONDS, _seconds(events_per_day, _events_of_topics(map(len, topics), of)))


def group_report_interval(events_per_day: int, groups: Collection[Hashable], of: int = 0) -> float:
    """Seconds between two reports of consumer groups.

    Args:
        events_per_day: How many events they may be, in the long run.
        groups: Those that are reported.
        of: How many there are, which costs nothing.
    """
    return max(SHORTEST_SECONDS, _seconds(events_per_day, _events_of_groups(len(groups))))


def run_window(window: float, events_per_day: int, partitions: Iterable[int]) -> float:
    """How long a run that copies stays, in seconds: each reports all topics once, so of many topics there are few runs.

    What runs report at their starts is then no more than what they may report anyway.

    Args:
        window: `sync.window`, which is the shortest.
        events_per_day: How many events reports may be.
        partitions: How many each topic has.
    """
    counts = list(partitions)
    events = _events_of_topics(counts, len(counts)) + len(counts) * _EVENTS_PER_VERDICT
    return max(window, _seconds(events_per_day, events))


def group_run_window(window: float, events_per_day: int, groups: int) -> float:
    """Likewise of a run that moves groups.

    Args:
        window: `sync.window`, which is the shortest.
        events_per_day: How many events reports may be.
        groups: How many there are.
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
    """Says which topics, or groups, are to be reported.

    Args:
        interval: Seconds between two reports, by the states of those that are reported, and by how many there are.
    """

    def __init__(self, interval: Callable[[Collection[State], int], float]) -> None:
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
        )[: max(FEWEST_AT_ONCE, len(states) // _TOPICS_PER_ONE_AT_ONCE)]
        pause = self._interval([states[name] for name in moved], len(states))
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
