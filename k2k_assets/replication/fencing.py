"""Fences the slots of earlier instances: after this nothing of theirs can be committed any more."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.assignment_records import Instance
from k2k_assets.replication.plan import transactional_id
from k2k_assets.transport.librdkafka_sink import claim, transactional_producer

_TIMEOUT = 30.0


def ids_to_fence(group: str, instances: Iterable[Instance]) -> list[str]:
    """The transactional ids that the slots of these instances may hold."""
    ids = {transactional_id(i.pipeline, group, slot) for i in instances for slot in range(i.slots)}
    return sorted(ids)


def fence(pipeline: Pipeline, transactional_ids: Iterable[str]) -> None:
    """Claims each id once: that bumps its epoch and aborts what its holder left open.

    Args:
        pipeline: Whose target, and how many at once (`coordination.assignment.fencingMaxParallelism`).
        transactional_ids: Which.

    Raises:
        Restart: The target did not answer.
        Refused: The principal may not do it.
    """
    properties = pipeline.client_properties("target", "producer")

    def fence_one(transactional_id: str) -> None:
        producer = transactional_producer(properties, transactional_id)
        claim(producer, _TIMEOUT, f"fencing {transactional_id}")

    with ThreadPoolExecutor(pipeline.coordination.assignment.fencing_max_parallelism) as pool:
        list(pool.map(fence_one, transactional_ids))
