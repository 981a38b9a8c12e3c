"""Gets out of the way what the dead left open in the commit topic.

A driver reads that topic before its slots claim anything. An open transaction of a dead slot would hide the end of the
topic until `transaction.timeout.ms` is over; fenced, it is aborted at once.
"""

from __future__ import annotations

import logging
import time

from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.assignment.fencing import fence
from k2k_assets.replication.assignment.neighbours import Neighbours
from k2k_assets.transport.errors import Restart

log = logging.getLogger("k2k.replication")

_LOOK_SECONDS = 1.0
# Who waits for the commit topic may be told to stop.
_FENCE_SECONDS = 5.0


class DeadHolders:
    """Fences them, each once.

    Args:
        pipeline: Whose commit topic.
        target: The target cluster.
        neighbours: Know who is dead.
        slots: How many the generation has that takes over.
    """

    def __init__(self, pipeline: Pipeline, target: Cluster, neighbours: Neighbours, slots: int) -> None:
        self._pipeline = pipeline
        self._target = target
        self._neighbours = neighbours
        self._slots = slots
        self._fenced: set[str] = set()
        self._next_look = 0.0

    def fence(self) -> None:
        """Fences those that are known by now, if an open transaction holds the commit topic; may be called often.

        Raises:
            K2KError: The target does not answer, or the principal may not do it.
        """
        if time.monotonic() < self._next_look:
            return
        self._neighbours.look()
        left = sorted(self._neighbours.left_behind(self._slots) - self._fenced)
        if left and self._is_held():
            log.warning("an open transaction holds the commit topic: fencing %s", ", ".join(left))
            try:
                fence(self._pipeline, left, _FENCE_SECONDS)
                self._fenced.update(left)
            except Restart as error:
                log.warning("not fenced: %s", error)
        self._next_look = time.monotonic() + _LOOK_SECONDS

    def _is_held(self) -> bool:
        partitions = self._target.partitions_of([self._pipeline.coordination.commit.topic])
        ends = self._target.offsets(partitions, "latest")
        stable = self._target.offsets(partitions, "stable")  # later, so that what was committed meanwhile holds nothing
        return any(stable.get(tp, end) < end for tp, end in ends.items())
