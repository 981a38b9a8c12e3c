"""Decides when a small transaction may be committed: after a pause half as long as a commit takes, at most 50 ms. Pure.

```
  |commit|pause|commit|pause|commit|pause|        a pause is half as long as a commit
  |   commit   |pause |   commit   |pause |       a slow target, a busy machine: fewer commits
```

So commits take at most two thirds of the time while a commit takes up to 100 ms, and a record waits no longer than that
needs. A lone record does not wait, because the last commit is long past. If records come fast, as in the copy of a
backlog, the pause is up to 50 ms: the source has run dry for a moment only.
"""

from __future__ import annotations

# A pause is so many times as long as a commit.
_PAUSE = 0.5
# Longest pause in seconds: if commits are slow in themselves, longer pauses would only delay records more.
_LONGEST_PAUSE = 0.05
# The pause is at least so long that the transaction's records came at no more than this rate, per second.
_FAST = 50_000
IDLE_SECONDS = 0.1
"""How long an idle poll waits; a record ends it at once."""
# How long to let records gather in the consumer's queue before the next poll.
_GATHER_SECONDS = 0.005
# Shortest wait of a poll while there is something to commit.
_SHORTEST_WAIT = 0.001
# Weight of the newest commit in the moving average of the commit cost.
_NEW = 0.2


class CommitPace:
    """Measures the cost of commits, and says when the next one is due.

    Args:
        shortest: `sync.minCommitInterval`: least seconds from the begin of one commit to the begin of the next.
        now: Monotonic seconds.
    """

    def __init__(self, shortest: float, now: float) -> None:
        self._shortest = shortest
        self._cost: float | None = None
        self._due = self._ended = now

    def committed(self, began: float, ended: float, small: bool) -> None:
        """Takes in a commit.

        Args:
            began: When the closing of its transaction began, monotonic seconds.
            ended: When it was committed, monotonic seconds.
            small: Whether the transaction was closed because the source had run dry; only these count for the cost,
                because large transactions cost more.
        """
        if small:
            took = ended - began
            self._cost = took if self._cost is None else self._cost + _NEW * (took - self._cost)
        pause = _LONGEST_PAUSE if self._cost is None else min(_PAUSE * self._cost, _LONGEST_PAUSE)
        self._due, self._ended = max(began + self._shortest, ended + pause), ended

    def due(self, records: int) -> float:
        """Earliest time to close the next small transaction, in monotonic seconds.

        Args:
            records: Number of records that it holds.
        """
        return max(self._due, self._ended + min(records / _FAST, _LONGEST_PAUSE))

    def gathering(self, records: int, exactly_once: bool, now: float) -> float:
        """Seconds to let records gather in the consumer's queue before the next poll; 0 or less: not at all.

        In exactly-once mode that is until the next commit is due before the transaction begins. A transaction that
        began right after the last commit would be refused while the target writes the markers of that commit
        (CONCURRENT_TRANSACTIONS), and the client retries only 20 ms later. In at-least-once mode a record is visible as
        soon as it is sent, so the first record of a transaction does not wait.

        Args:
            records: Number of records in the transaction.
            exactly_once: Whether records are sent inside the transaction.
            now: Monotonic seconds.
        """
        if records:
            longest = _GATHER_SECONDS
        elif exactly_once:
            longest = IDLE_SECONDS
        else:
            return 0.0
        return min(self.due(records) - now, longest)

    def until_due(self, records: int, now: float) -> float:
        """How long the next poll may wait while there is something to commit, in seconds.

        Args:
            records: Number of records in the transaction.
            now: Monotonic seconds.
        """
        return max(_SHORTEST_WAIT, min(self.due(records) - now, IDLE_SECONDS))
