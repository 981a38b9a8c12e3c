"""When the end of a source partition was looked at: so a record is known to wait no longer than since a look.

```
look at 10:00:00   end 500
look at 10:00:01   end 620, position 510:   what waits came after 10:00:00, whatever time its producer gave it
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from k2k_assets.core.topic_partition import TopicPartition

_NEW_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class SourceLooks:
    """The looks at one partition.

    Attributes:
        at: When the end was looked at that has to be reached next, monotonic seconds.
        end: That end.
        reached_at: When the last end was looked at that is reached; None if none is.
    """

    at: float
    end: int
    reached_at: float | None = None

    def then(self, position: int, end: int, now: float) -> SourceLooks:
        """With a further look, when so much is copied."""
        return self if position < self.end else SourceLooks(now, end, self.at)

    def longest_wait(self, now: float) -> float | None:
        """Seconds that a record has waited at most by now; None if that is not known."""
        return None if self.reached_at is None else now - self.reached_at

    def are_new(self, now: float) -> bool:
        """Whether what waits may have come a moment before the first look."""
        return self.reached_at is None and now - self.at < _NEW_SECONDS


class LooksByPartition:
    """The looks at many partitions, by somebody who looks at all of them now and then."""

    def __init__(self) -> None:
        self._known: dict[TopicPartition, SourceLooks] = {}

    def look(self, seen: Mapping[TopicPartition, tuple[int, int]], now: float) -> dict[TopicPartition, float]:
        """Seconds that a record has waited at most, where that is known.

        Args:
            seen: Position and end of each partition; others are forgotten.
            now: Monotonic seconds.
        """
        known = self._known
        self._known = {
            tp: known[tp].then(position, end, now) if tp in known else SourceLooks(now, end)
            for tp, (position, end) in seen.items()
        }
        return {tp: wait for tp, looks in self._known.items() if (wait := looks.longest_wait(now)) is not None}
