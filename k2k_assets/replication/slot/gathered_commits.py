"""The commits that a slot has not reported yet: the copy loop adds them, the thread that reports takes them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping

from k2k_assets.replication.slot_reports import Commits

# Of a driver that cannot be reached so many commits wait; the oldest are dropped.
_MOST_WAITING = 5000
# So many ages with the names of their topics, 249 characters at most, fit into a line (`slot_reports.MOST_BYTES`).
_MOST_AGES = 200


class GatheredCommits:
    """Commits that wait to be reported."""

    def __init__(self) -> None:
        # One side appends, the other one takes from the left: neither needs a lock.
        self._waiting: deque[tuple[float, Mapping[str, float]]] = deque(maxlen=_MOST_WAITING)

    def add(self, seconds: float, ages: Mapping[str, float]) -> None:
        """Adds one; see `CommitListener`."""
        self._waiting.append((seconds, ages))

    def taken(self) -> Commits | None:
        """Takes as many as fit into a report; None if there are none.

        Of a commit with more topics than fit, the first ones are reported.
        """
        seconds: list[float] = []
        ages: defaultdict[str, list[float]] = defaultdict(list)
        room = _MOST_AGES
        while self._waiting and len(seconds) < _MOST_AGES and (not seconds or len(self._waiting[0][1]) <= room):
            took, of_topics = self._waiting.popleft()
            seconds.append(round(took, 6))
            for topic, age in list(of_topics.items())[:room]:
                ages[topic].append(round(age, 3))
                room -= 1
        return Commits(seconds, dict(ages)) if seconds else None
