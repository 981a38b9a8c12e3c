"""Runs a slot as a task, to its end, and returns how it ended."""

from __future__ import annotations

from dataclasses import dataclass

from k2k_assets.control.assignment_writing import write_stop
from k2k_assets.core.errors import K2KError, kind_of
from k2k_assets.core.log_fields import logged_with
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.slot import Slot


@dataclass(frozen=True, slots=True)
class SlotResult:
    """How a slot ended.

    Attributes:
        slot: Number of the slot.
        error: Name of the error class in `core/errors.py`; empty if it ended well.
        message: The error's message.
        stopped: Stopped partitions, with the reasons.
        superseded_by: Partitions that were left to other instances, with these.
    """

    slot: int
    error: str
    message: str
    stopped: dict[TopicPartition, StopReason]
    superseded_by: dict[TopicPartition, str]


def copy_slot(plan: SlotPlan) -> SlotResult:
    """Runs one slot to its end; a slot that cannot go on asks the others of its generation to end too."""
    with logged_with(pipeline=plan.pipeline.name, instance=plan.instance, slot=plan.slot, generation=plan.generation):
        return _copied(plan)


def _copied(plan: SlotPlan) -> SlotResult:
    try:
        memory = Slot(plan).run()
        if memory.claims.is_superseded:  # Spark would take a result for the slot's, and end the attempt that copies
            raise RuntimeError(f"another attempt of slot {plan.slot} of generation {plan.generation} copies instead")
        return SlotResult(plan.slot, "", "", memory.stopped.reasons, memory.claims.superseded_by)
    except K2KError as failure:
        _end_the_others(plan, failure)
        return SlotResult(plan.slot, kind_of(failure), str(failure), {}, {})


def _end_the_others(plan: SlotPlan, failure: K2KError) -> None:
    """Asks the other slots to end. If that fails, it lets this task fail, which ends the job: nobody else would."""
    try:
        write_stop(plan.pipeline, plan.generation)
    except K2KError as unwritten:
        raise RuntimeError(
            f"slot {plan.slot} of generation {plan.generation} cannot go on: {failure}. Nor can it ask the others to "
            f"end: {unwritten}"
        ) from failure
