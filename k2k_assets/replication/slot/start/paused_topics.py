"""Leaves the partitions of paused topics out of a session; they stay claimed, so that no other instance takes them.

Nothing is asked or checked about them. When a topic is paused or resumed, the session ends in the ordinary way, and the
next one begins without, or with, its partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import abbreviate
from k2k_assets.replication.slot.slot_memory import SlotMemory

log = logging.getLogger("k2k.replication")


class PausedTopics:
    """The partitions that a session leaves out because their topics are paused.

    Args:
        slot: Number of the slot.
        memory: Remembers what was logged, and which partitions are stopped.
        tail: Follows the assignment topic.
    """

    def __init__(self, slot: int, memory: SlotMemory, tail: AssignmentTail) -> None:
        self._slot = slot
        self._memory = memory
        self._tail = tail
        self.partitions: frozenset[TopicPartition] = frozenset()

    def begin(self, claimed: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Begins a session; returns the partitions that it leaves out.

        Args:
            claimed: The partitions that the slot has claimed.
        """
        self.partitions = self._of(claimed)
        known, self._memory.paused = self._memory.paused, self.partitions
        if fresh := self.partitions - known:
            log.info("slot %d: paused: %s", self._slot, abbreviate(fresh))
        if resumed := (known - self.partitions) & frozenset(claimed):
            log.info("slot %d: resumed: %s", self._slot, abbreviate(resumed))
        return self.partitions

    def changed(self, claimed: Collection[TopicPartition]) -> frozenset[TopicPartition] | None:
        """The partitions that are paused now, if they are others than at the begin of the session; else None."""
        if not (self._tail.state.paused or self.partitions):
            return None
        now = self._of(claimed)
        return now if now != (self.partitions & frozenset(claimed)) else None

    def _of(self, claimed: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        paused, stopped = self._tail.state.paused, self._memory.stopped.reasons
        return frozenset(tp for tp in claimed if tp.topic in paused and tp not in stopped) if paused else frozenset()
