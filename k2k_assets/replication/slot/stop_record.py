"""Watches for the stop record of a slot's generation: the driver has no other channel into a running slot."""

from __future__ import annotations

from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.core.clock import Clock
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.slot_memory import SlotMemory


class AskedToStop(Exception):
    """The stop record came while the session waited."""


class StopRecordWatch:
    """Tells whether the slot is to stop.

    Args:
        plan: The slot.
        memory: Remembers when the record was seen, because it may be removed before the slot ends.
        tail: Follows the assignment topic.
        clock: The session's clock.
    """

    def __init__(self, plan: SlotPlan, memory: SlotMemory, tail: AssignmentTail, clock: Clock) -> None:
        self._generation = plan.generation
        self._memory = memory
        self._tail = tail
        self._clock = clock

    def is_seen(self) -> bool:
        """Whether a stop record was seen, in what the tail has read so far."""
        if self._memory.told_to_stop is None and self._generation in self._tail.state.stops:
            self._memory.told_to_stop = self._clock.monotonic()
        return self._memory.told_to_stop is not None

    def ensure_none(self) -> None:
        """Makes sure that the slot may go on waiting.

        Raises:
            AskedToStop: It is to stop.
        """
        if self.is_seen():
            raise AskedToStop
