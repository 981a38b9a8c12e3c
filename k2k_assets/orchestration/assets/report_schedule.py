"""When a run that copies for long reports its topics to Dagster. Pure.

An event costs some kilobytes of Dagster's database, and nothing removes it but a job of the user's. So the time between
two reports follows from how many events a day may cost, and from how many topics move.
"""

from __future__ import annotations

from collections.abc import Mapping

SHORTEST_SECONDS = 30.0
_DAY_SECONDS = 86_400.0
# A materialization of the copy, and an observation of its source.
_EVENTS_PER_TOPIC = 2
# The commit log's own.
_EVENTS_PER_REPORT = 1

Positions = tuple[int, ...]


def report_interval(events_per_day: int, topics: int) -> float:
    """Seconds between two reports.

    Args:
        events_per_day: How many events they may be, in the long run.
        topics: How many topics move.
    """
    events = topics * _EVENTS_PER_TOPIC + _EVENTS_PER_REPORT
    return max(SHORTEST_SECONDS, events * _DAY_SECONDS / events_per_day)


class ReportSchedule:
    """Says which topics are to be reported.

    Args:
        events_per_day: How many events the reports may be, in the long run.
    """

    def __init__(self, events_per_day: int) -> None:
        self._per_day = events_per_day
        self._reported: dict[str, Positions] = {}
        self._last: float | None = None

    def due(self, positions: Mapping[str, Positions], now: float) -> list[str]:
        """The topics to report now: each once at the start, then those that moved, when it is time.

        Args:
            positions: Of each partition, by topic.
            now: Seconds that only rise.
        """
        new = sorted(positions.keys() - self._reported.keys())
        if new:
            return new
        moved = sorted(topic for topic, now_at in positions.items() if self._reported[topic] != now_at)
        if not moved or (self._last is not None and now < self._last + report_interval(self._per_day, len(moved))):
            return []
        return moved

    def reported(self, positions: Mapping[str, Positions], now: float) -> None:
        """Notes what was reported.

        Args:
            positions: Of the topics that were.
            now: Seconds that only rise.
        """
        self._reported.update(positions)
        self._last = now
