"""Becomes the newest instance of a group: only one works at a time."""

from __future__ import annotations

import logging

from k2k_assets.errors import ClusterUnreachable, Refused
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.assignment import AssignmentTail, forget_instance, new_instance, write_instance
from k2k_assets.replication.fencing import fence, ids_to_fence
from k2k_assets.transport.errors import Restart

log = logging.getLogger("k2k.replication")


def announce(pipeline: Pipeline, target: Cluster, slots: int, commit_topic_id: str) -> int:
    """Writes an instance record and fences all slots of the instances before it.

    The record of an older instance is removed only after its slots were fenced, so a crash in between leaves the next
    instance all it needs. An older instance that claims a slot later (it was slow) finds the newer record right after,
    before it reads a position, and ends.

    Args:
        pipeline: Whose group.
        target: The target cluster.
        slots: How many slots this instance uses.
        commit_topic_id: Of the commit topic.

    Returns:
        The generation: the offset of the instance record.

    Raises:
        Superseded: A still newer instance came meanwhile.
        Refused: The commit topic is not the one that the group used before.
    """
    instance = new_instance(pipeline, slots, commit_topic_id)
    with AssignmentTail(pipeline, target) as tail:
        _ensure_same_commit_topic(pipeline, tail, commit_topic_id)
        generation = write_instance(pipeline, instance)
        found = tail.catch_up().instances
        older = {g: i for g, i in found.items() if g < generation and i.instance != instance.instance}
        tail.ensure_newest(generation)
    try:
        fence(pipeline, ids_to_fence(pipeline.group, older.values()))
    except Restart as error:
        raise ClusterUnreachable(f"earlier instances could not be fenced on the {target}: {error}") from None
    for old in older.values():
        forget_instance(pipeline, old.instance)
    return generation


def _ensure_same_commit_topic(pipeline: Pipeline, tail: AssignmentTail, commit_topic_id: str) -> None:
    """A commit topic that was lost would otherwise mean: copy everything once more."""
    instances = tail.catch_up().instances
    if not instances:
        return
    last = instances[max(instances)]
    if last.commit_topic_id != commit_topic_id:
        raise Refused(
            f"the commit topic {pipeline.coordination.commit.topic} was deleted and created anew since group "
            f"{pipeline.group} used it last (topic id {last.commit_topic_id} is now {commit_topic_id}): its positions "
            "are lost. To copy everything from the start, use a new group.id"
        )
