"""How many slots a generation has, and whether another number would be right by now."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from k2k_assets.core.words import plural
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.plan import slots_for

log = logging.getLogger("k2k.replication")


class SlotCount:
    """Asks how many slots can run at once: for each generation, and each `sync.metadataInterval` while one copies.

    Executors come and go. A lost one fails the job, so a new generation follows anyway; of one that has come, only a
    look tells. On one machine the number is always the same.

    Args:
        pipeline: Has the number of slots that is wanted, if any, and the interval.
        cores: Returns the number of slots that can run at once.
        clock: Seconds that only rise.
    """

    def __init__(
        self, pipeline: Pipeline, cores: Callable[[], int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pipeline, self._cores, self._clock = pipeline, cores, clock
        self._interval = pipeline.sync.metadata_interval.total_seconds()
        self._next = clock() + self._interval
        self._partitions = self._planned = 0

    def plan(self, partitions: int) -> int:
        """Number of slots of a new generation with so many partitions."""
        self._partitions, self._planned = partitions, slots_for(self._pipeline, partitions, self._cores())
        self._next = self._clock() + self._interval
        return self._planned

    def has_changed(self) -> bool:
        """Whether it is time to look, and a generation that is planned now would have more or fewer slots."""
        if self._clock() < self._next:
            return False
        self._next = self._clock() + self._interval
        now = slots_for(self._pipeline, self._partitions, self._cores())
        if now == self._planned:
            return False
        cores_for = plural(now, "slot")
        log.info("Spark has cores for %s, instead of %d: the partitions are spread anew", cores_for, self._planned)
        return True
