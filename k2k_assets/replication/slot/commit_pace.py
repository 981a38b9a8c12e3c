"""When the next transaction may be committed while records trickle in: as soon as the last one was cheap enough. Pure.

```
  |commit|pause|commit|pause|commit|pause|        a pause is half as long as a commit
  |   commit   |pause |   commit   |pause |       a slow target, a busy machine: fewer commits
```

So commits take two thirds of the time at most, whatever they cost, and a record waits as short as that allows. A lone
record waits for nothing: the last commit is long past. Where records come faster than they trickle, as in a copy of
what has piled up, a pause is as long as it may be: the source has run dry for a moment only.
"""

from __future__ import annotations

# Pauses are so many times as long as a commit.
_PAUSE = 0.5
# A pause is never longer: then each commit is slow in itself, and waiting would only make it slower.
_LONGEST_PAUSE = 0.05
# Records per second that are no trickle any more.
_FAST = 50_000
# How much of what is known of the cost the newest commit replaces.
_NEW = 0.2


class CommitPace:
    """Follows what a commit costs.

    Args:
        shortest: `sync.minCommitInterval`, seconds from the begin of one commit to that of the next.
        now: Monotonic seconds.
    """

    def __init__(self, shortest: float, now: float) -> None:
        self._shortest = shortest
        self._cost: float | None = None
        self._due = self._ended = now

    def committed(self, began: float, ended: float, small: bool) -> None:
        """A transaction was committed.

        Args:
            began: When its closing began, monotonic seconds.
            ended: When it was committed.
            small: Whether it was closed because nothing more was there: what large ones cost says nothing of these.
        """
        if small:
            took = ended - began
            self._cost = took if self._cost is None else self._cost + _NEW * (took - self._cost)
        pause = _LONGEST_PAUSE if self._cost is None else min(_PAUSE * self._cost, _LONGEST_PAUSE)
        self._due, self._ended = max(began + self._shortest, ended + pause), ended

    def due(self, records: int) -> float:
        """From when on the next small transaction may be closed, monotonic seconds.

        Args:
            records: How many it holds.
        """
        return max(self._due, self._ended + min(records / _FAST, _LONGEST_PAUSE))
