"""How long the brokers may take to end a transaction, behind the answer to its commit.

While they do, the next transaction cannot begin. A partition that joins it by a request of its own is asked to wait,
and can. Records that join it are held back by the broker for a tenth of a second, and then refused; they go again, so
that it takes longer. Mostly it takes milliseconds; between distant brokers, or while one is away, far more.
"""

from __future__ import annotations

_AT_FIRST = 20
_MARGIN = 2


class EndingTime:
    """Learns it from the partitions that join by requests, and from records that are refused.

    Args:
        least: It is never taken for less than so many seconds; at first for so much more that it is learned.
    """

    def __init__(self, least: float) -> None:
        self._least, self._longest = least, _AT_FIRST * least
        self._ended_at = float("-inf")

    def began(self, now: float) -> None:
        """A commit was answered.

        Args:
            now: Monotonic seconds.
        """
        self._ended_at = now

    def may_go_on(self, now: float) -> bool:
        """Whether the transaction before may still be being ended."""
        return now - self._ended_at < self._longest

    def is_not_over(self, now: float) -> None:
        """Records were refused that were to join the next transaction.

        Args:
            now: Monotonic seconds.
        """
        if self._ended_at > float("-inf"):
            self._longest = max(self._longest, (now - self._ended_at) * _MARGIN)

    def is_over(self, now: float, had_to_wait: bool) -> None:
        """A partition has joined the next transaction.

        Args:
            now: Monotonic seconds.
            had_to_wait: Whether it had to wait for the end of the one before.
        """
        took = now - self._ended_at
        self._longest = max(self._least, took * _MARGIN if had_to_wait else min(self._longest, took))
