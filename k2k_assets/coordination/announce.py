"""Writes the instance record of a driver: its offset is the generation under which the slots claim."""

from __future__ import annotations

import logging
from dataclasses import replace

from k2k_assets.control.assignment_records import InstanceRecord, heartbeat_key, instance_key, stop_key
from k2k_assets.control.assignment_state import Assignments
from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.control.assignment_writing import write_instance, write_records
from k2k_assets.control.commit_log import ensure_same_commit_topic, now_ms
from k2k_assets.coordination.liveness import unheard_since
from k2k_assets.pipeline import Pipeline

log = logging.getLogger("k2k.replication")

# Records of an instance are removed when nothing was heard of it for an hour: they are only in the way of readers.
_KEPT_MS = 3_600_000


def announce(pipeline: Pipeline, tail: AssignmentTail, instance: InstanceRecord) -> int:
    """Draws a generation, and removes what earlier instances left that no claim speaks of any more.

    Nobody is fenced here: each slot does that for the partitions that it claims.

    Args:
        pipeline: Whose group.
        tail: The assignment topic.
        instance: This process. Written again under the same name, it replaces its former record.

    Returns:
        The generation: the offset of the instance record.

    Raises:
        Refused: The commit topic is not the one that the group used before.
    """
    state = tail.catch_up()
    _ensure_same_commit_topic(pipeline, state, instance.commit_topic_id)
    generation = write_instance(pipeline, replace(instance, time=now_ms()))
    over = _left_over(pipeline.group, tail.catch_up(), generation, now_ms() - _KEPT_MS)
    write_records(pipeline, [(key, None) for key in over])
    return generation


def _left_over(group: str, state: Assignments, generation: int, before: int) -> list[bytes]:
    """Not what was heard of since: it may claim nothing yet, or nothing just now, because it was fenced."""
    claimed = {claim.generation for claim in state.claims.values()}

    def is_over(earlier: int) -> bool:
        return earlier < generation and earlier not in claimed and unheard_since(state, earlier, before)

    return [
        *(instance_key(group, instance.instance) for g, instance in state.instances.items() if is_over(g)),
        *(heartbeat_key(group, g, slot) for g, slot in state.signs if is_over(g)),
        *(stop_key(group, g) for g in state.stops if is_over(g)),
    ]


def _ensure_same_commit_topic(pipeline: Pipeline, state: Assignments, commit_topic_id: str) -> None:
    if state.instances:
        ensure_same_commit_topic(pipeline, state.instances[state.newest()].commit_topic_id, commit_topic_id)
