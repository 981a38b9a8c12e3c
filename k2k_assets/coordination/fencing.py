"""Fences the holders of transactional ids: after this nothing of theirs can be committed any more."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from k2k_assets.pipeline import Pipeline
from k2k_assets.transport.factory import transport_of

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
    transport = transport_of(pipeline)

    def fence_one(transactional_id: str) -> None:
        transport.claim(transactional_id, timeout, f"fencing {transactional_id}")

    with ThreadPoolExecutor(pipeline.coordination.assignment.fencing_max_parallelism) as pool:
        list(pool.map(fence_one, transactional_ids))
