"""Fences the holders of transactional ids: after this nothing of theirs can be committed any more."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from k2k_assets.pipeline import Pipeline
from k2k_assets.transport.librdkafka.sink import claim, transactional_producer

_TIMEOUT = 30.0


def fence(pipeline: Pipeline, transactional_ids: Iterable[str], timeout: float = _TIMEOUT) -> None:
    """Claims each id once: that bumps its epoch and aborts what its holder left open.

    Args:
        pipeline: Whose target, and how many at once (`coordination.assignment.fencingMaxParallelism`).
        transactional_ids: Which.
        timeout: Seconds for each.

    Raises:
        Restart: The target did not answer.
        Refused: The principal may not do it.
    """
    properties = pipeline.client_properties("target", "producer")

    def fence_one(transactional_id: str) -> None:
        producer = transactional_producer(properties, transactional_id)
        claim(producer, timeout, f"fencing {transactional_id}")

    with ThreadPoolExecutor(pipeline.coordination.assignment.fencing_max_parallelism) as pool:
        list(pool.map(fence_one, transactional_ids))
