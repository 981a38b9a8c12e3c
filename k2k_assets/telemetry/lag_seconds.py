"""How many seconds partitions are behind, read when somebody looks at the metrics, and not in the driver's thread."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from k2k_assets.core.clock import SYSTEM_CLOCK, Clock
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.progress import Progress, longest_waits
from k2k_assets.status.lag import lags
from k2k_assets.status.waiting_records import WaitingRecords

# Several readers may ask, each for all metrics; a look costs a fetch for each partition that lags.
_KEPT_SECONDS = 5.0


class LagSeconds:
    """Reads the age of the oldest record that is not copied yet.

    Args:
        pipeline: The pipeline; the source is read with its settings.
        clock: Tells the age of records, and of the last look.
    """

    def __init__(self, pipeline: Pipeline, clock: Clock = SYSTEM_CLOCK) -> None:
        self._records = WaitingRecords(pipeline)
        self._clock = clock
        self._turn = threading.Lock()
        self._seen: dict[TopicPartition, float] = {}
        self._until = 0.0
        self._is_closed = False

    def read(self, progress: Progress) -> Mapping[TopicPartition, float]:
        """Seconds by source partition; those that cannot be known now are left out."""
        with self._turn:
            if not self._is_closed and self._clock.monotonic() >= self._until:
                self._seen = self._look(progress)
                self._until = self._clock.monotonic() + _KEPT_SECONDS
            return {
                tp: self._seen[tp] if each.lag else 0.0
                for tp, each in progress.partitions.items()
                if each.is_end_known and (tp in self._seen or not each.lag)
            }

    def close(self) -> None:
        """Closes the client."""
        with self._turn:
            self._is_closed = True
            self._records.close()

    def _look(self, progress: Progress) -> dict[TopicPartition, float]:
        behind = {tp: each for tp, each in progress.partitions.items() if each.lag and each.is_end_known}
        waiting = {tp: (each.position, each.readable_end) for tp, each in behind.items()}
        oldest = self._records.oldest(waiting)
        positions = {tp: each.position for tp, each in behind.items()}
        ends = {tp: each.readable_end for tp, each in behind.items()}
        longest = longest_waits(behind, self._clock.monotonic())
        found = lags(positions, ends, oldest, int(self._clock.time() * 1000), longest)
        return {tp: lag.seconds for tp, lag in found.items() if lag.seconds is not None}
