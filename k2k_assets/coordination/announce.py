"""Writes the instance record of a driver: its offset is the generation under which the slots claim."""

from __future__ import annotations

import logging
from dataclasses import replace

from k2k_assets.control.assignment_records import (
    InstanceRecord,
    heartbeat_key,
    instance_key,
    run_heartbeat_key,
    stop_key,
)
from k2k_assets.control.assignment_state import Assignments
from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.control.assignment_writing import write_instance, write_records
from k2k_assets.control.commit_log import ensure_same_commit_topic, now_ms
from k2k_assets.coordination.liveness import unheard_since
from k2k_assets.pipeline import Pipeline

log = logging.getLogger("k2k.replication")

# An instance, or a Dagster run, without a record for an hour has its records removed: they only slow readers down.
_KEPT_MS = 3_600_000


def announce(pipeline: Pipeline, tail: AssignmentTail, instance: InstanceRecord) -> int:
    """Writes an instance record and so draws a generation; removes old records that nobody needs.

    These are the records of instances that hold no claim, and the heartbeats of runs that were killed. It fences
    nobody: each slot fences the other owners of the partitions that it claims.

    Args:
        pipeline: Names the group.
        tail: Follows the assignment topic.
        instance: This process. If it was announced before under the same name, the new record replaces the old one.

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
    """Keys of the records of earlier generations without a claim, and of runs, that have written none since `before`.

    A generation with newer records is kept: it may not have claimed yet, or have lost its claims by fencing.
    """
    claimed = {claim.generation for claim in state.claims.values()}

    def is_over(earlier: int) -> bool:
        return earlier < generation and earlier not in claimed and unheard_since(state, earlier, before)

    return [
        *(instance_key(group, instance.instance) for g, instance in state.instances.items() if is_over(g)),
        *(heartbeat_key(group, g, slot) for g, slot in state.signs if is_over(g)),
        *(stop_key(group, g) for g in state.stops if is_over(g)),
        *(run_heartbeat_key(group, run) for run, heard in state.runs_heard.items() if heard < before),
    ]


def _ensure_same_commit_topic(pipeline: Pipeline, state: Assignments, commit_topic_id: str) -> None:
    if state.instances:
        ensure_same_commit_topic(pipeline, state.instances[state.newest()].commit_topic_id, commit_topic_id)
