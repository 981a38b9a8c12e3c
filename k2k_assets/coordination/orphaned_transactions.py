"""Gets out of the way what the dead left open in the commit topic.

A driver reads that topic before its slots claim anything. An open transaction of a dead slot would hide the end of the
topic until `transaction.timeout.ms` is over; fenced, it is aborted at once.
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
# Who waits for the commit topic may be told to stop.
_FENCE_SECONDS = 2.0


class OrphanedTransactions:
    """Fences them, each once, where the commit topic stays held from one look to the next.

    It is a help only: what goes wrong is said, and reading goes on, or finds out by itself.

    Args:
        pipeline: Whose commit topic.
        target: The target cluster.
        peers: Know who is dead.
        slots: How many the generation has that takes over.
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
        """Looks about once a second, however often it is called."""
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
            return  # a transaction of the living is soon over
        self._peers.refresh()
        left = sorted(self._peers.left_behind(self._slots) - self._fenced)
        if left:
            log.warning("an open transaction holds the commit topic: fencing %s", ", ".join(left))
            fence(self._pipeline, left, _FENCE_SECONDS)
            self._fenced.update(left)

    def _open(self) -> set[tuple[TopicPartition, int]]:
        """The partitions that end behind an open transaction, each with the offset at which the first one begins."""
        partitions = self._target.partitions_of([self._pipeline.coordination.commit.topic])
        ends, stable = self._target.offsets(partitions, "latest"), self._target.offsets(partitions, "stable")
        return {(tp, stable[tp]) for tp, end in ends.items() if stable.get(tp, end) < end}
