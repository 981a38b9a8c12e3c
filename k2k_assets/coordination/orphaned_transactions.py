"""Aborts transactions that dead slots left open in the commit topic, by fencing their ids.

A driver reads the commit topic before its slots claim anything. An open transaction of a dead slot hides the end of the
topic until `transaction.timeout.ms` is over; fencing the slot's id aborts it at once.
"""

from __future__ import annotations

import logging
import time

from k2k_assets.coordination.claims import fence
from k2k_assets.coordination.peers import Peers
from k2k_assets.core.errors import ClusterUnreachable, Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline
from k2k_assets.transport.errors import Restart

log = logging.getLogger("k2k.replication")

_POLL_SECONDS = 1.0
# Short: a driver that waits for the commit topic must hear soon that it is to stop.
_FENCE_SECONDS = 2.0


class OrphanedTransactions:
    """Fences the ids of dead slots, each once, while the same transaction stays open in the commit topic.

    This only speeds up the read: errors are logged, and the read goes on.

    Args:
        pipeline: Names the commit topic.
        target: The target cluster.
        peers: Tells which slots are dead.
        slots: Number of slots of the generation that takes over.
    """

    def __init__(self, pipeline: Pipeline, target: Cluster, peers: Peers, slots: int) -> None:
        self._pipeline = pipeline
        self._target = target
        self._peers = peers
        self._slots = slots
        self._fenced: set[str] = set()
        self._held: set[tuple[TopicPartition, int]] = set()
        self._next_look = 0.0

    def fence(self) -> None:
        """Looks for open transactions about once a second, however often it is called, and fences dead slots."""
        if time.monotonic() < self._next_look:
            return
        try:
            self._look()
        except (Restart, ClusterUnreachable, Refused) as error:
            log.warning("an open transaction may hold the commit topic until it times out: %s", error)
        self._next_look = time.monotonic() + _POLL_SECONDS

    def _look(self) -> None:
        before, self._held = self._held, self._open()
        if not before & self._held:
            return  # none was open at the last look already: a living slot ends its transaction soon
        self._peers.refresh()
        left = sorted(self._peers.left_behind(self._slots) - self._fenced)
        if left:
            log.warning("an open transaction holds the commit topic: fencing %s", ", ".join(left))
            fence(self._pipeline, left, _FENCE_SECONDS)
            self._fenced.update(left)

    def _open(self) -> set[tuple[TopicPartition, int]]:
        """The partitions with an open transaction, each with the offset at which the first one begins."""
        partitions = self._target.partitions_of([self._pipeline.coordination.commit.topic])
        ends, stable = self._target.offsets(partitions, "latest"), self._target.offsets(partitions, "stable")
        return {(tp, stable[tp]) for tp, end in ends.items() if stable.get(tp, end) < end}
