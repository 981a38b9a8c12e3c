"""The commits that a slot has not reported yet: the copy loop adds them, the thread that reports takes them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping

from k2k_assets.replication.slot_reports import AGE_BOUNDS, DURATION_BOUNDS, Commits, Distribution

# Of a driver that cannot be reached so many commits wait; the oldest are dropped.
_MOST_WAITING = 5000
# So many topics, with names of 249 characters at most, fit into a line (`slot_reports.MOST_BYTES`).
_MOST_TOPICS = 100


class GatheredCommits:
    """Commits that wait to be reported."""

    def __init__(self) -> None:
        # One side appends, the other one works at the left end: neither needs a lock.
        self._waiting: deque[tuple[float | None, Mapping[str, float]]] = deque(maxlen=_MOST_WAITING)

    def add(self, seconds: float, ages: Mapping[str, float]) -> None:
        """Adds one; see `CommitListener`."""
        self._waiting.append((seconds, ages))

    def taken(self) -> Commits | None:
        """Takes as many as fit into a report; None if there are none."""
        if not self._waiting:
            return None
        durations: list[float] = []
        ages: defaultdict[str, list[float]] = defaultdict(list)
        while self._waiting and len(ages) < _MOST_TOPICS:
            took, of_topics = self._waiting.popleft()
            if took is not None:
                durations.append(took)
            left: dict[str, float] = {}
            for topic, age in of_topics.items():
                if topic in ages or len(ages) < _MOST_TOPICS:
                    ages[topic].append(age)
                else:
                    left[topic] = age
            if left:  # of a commit that is counted already
                self._waiting.appendleft((None, left))
        by_topic = {topic: Distribution.of(each, AGE_BOUNDS) for topic, each in ages.items()}
        return Commits(Distribution.of(durations, DURATION_BOUNDS), by_topic)
