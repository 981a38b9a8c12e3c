"""Partitions whose leader has to be found anew: at once, then after pauses that grow until a batch is taken."""

from __future__ import annotations

import time

from k2k_assets.transport.record_batch.writing.target_partitions import NOBODY, TargetPartition

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5


class LeaderSearch:
    """Keeps those partitions until it is time to ask."""

    def __init__(self) -> None:
        self._why: dict[TargetPartition, str] = {}
        self._pause = 0.0
        self._not_before = 0.0

    def add(self, partition: TargetPartition, why: str) -> None:
        """Adds a partition; nothing is sent to it meanwhile.

        Args:
            partition: The partition.
            why: Why its leader has taken nothing.
        """
        if not self._why:
            self._not_before = time.monotonic() + self._pause
            self._pause = min(max(_FIRST_PAUSE, 2 * self._pause), _LONGEST_PAUSE)
        partition.node = NOBODY
        self._why[partition] = why

    def succeeded(self) -> None:
        """Notes that a leader has taken something."""
        self._pause = 0.0

    def is_due(self) -> bool:
        """Whether there are any, and it is time to ask."""
        return bool(self._why) and time.monotonic() >= self._not_before

    def patience(self, seconds: float) -> float:
        """Seconds until it is due, at most so many."""
        return min(seconds, max(0.0, self._not_before - time.monotonic())) if self._why else seconds

    def take(self) -> list[TargetPartition]:
        """Hands them all out."""
        why, self._why = self._why, {}
        return list(why)

    def reasons(self) -> list[str]:
        """Why leaders have taken nothing, each once."""
        return sorted(set(self._why.values()))
