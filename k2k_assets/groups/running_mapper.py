"""Finds the running mapper of a pipeline, and looks at the groups that it moves without disturbing it.

A materialization by hand in Dagster uses this: a mapper of its own would take over from the running one and end it.
"""

from __future__ import annotations

import time
from dataclasses import replace

from k2k_assets.coordination.liveness import heartbeat_interval_seconds
from k2k_assets.core.deadline import Deadline
from k2k_assets.groups.claim import MapperClaims
from k2k_assets.groups.poller import Poller
from k2k_assets.groups.report import PollResult
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.pipeline import Pipeline

_PAUSE_SECONDS = 0.25
# Least time that the running mapper has for its next polls.
_SHORTEST_PATIENCE = 10.0
_POLLS = 3


def running_mapper(pipeline: Pipeline, target: Cluster) -> str:
    """Text that names the running mapper of a pipeline, if one is certainly alive; else an empty text.

    Raises:
        K2KError: The target does not answer, or the assignment topic cannot be read.
    """
    if not target.describe([pipeline.coordination.assignment.topic]):
        return ""
    with MapperClaims(pipeline, target) as claims:
        first = {heartbeat.mapper: offset for offset, heartbeat in claims.heartbeats().items()}
        patience = Deadline(2 * heartbeat_interval_seconds(pipeline))
        while first and not patience.expired():
            for offset, heartbeat in claims.heartbeats().items():
                if offset > first.get(heartbeat.mapper, -1):
                    return str(heartbeat)
            time.sleep(_PAUSE_SECONDS)
    return ""


def observe(pipeline: Pipeline) -> PollResult:
    """Reads the groups and their translated positions once; commits nothing.

    Raises:
        K2KError: A cluster does not answer or refuses, or a topic or permission is missing.
    """
    with both_clusters(pipeline) as (source, target), Poller(pipeline, source, target) as poller:
        poller.begin_read_only()
        return poller.poll()


def await_moved(pipeline: Pipeline, moved_by: str) -> PollResult:
    """Polls the groups until they stand at their translated positions, or until the mapper has had some polls.

    Args:
        pipeline: The pipeline.
        moved_by: Text that names the running mapper.

    Returns:
        The last poll; groups that do not stand at their translated positions are in `failed`.

    Raises:
        K2KError: A cluster does not answer or refuses, or a topic or permission is missing.
    """
    patience = Deadline(max(_SHORTEST_PATIENCE, _POLLS * pipeline.groups.poll_interval.total_seconds()))
    with both_clusters(pipeline) as (source, target), Poller(pipeline, source, target) as poller:
        poller.begin_read_only()
        while True:
            result = poller.poll()
            elsewhere = [group for group, decision in result.decisions.items() if decision.commits]
            if not elsewhere or patience.expired():
                break
            time.sleep(_PAUSE_SECONDS)
    why = f"{moved_by} moves the groups, and has not moved this one: its log says why. Stop it to move groups by hand"
    return replace(result, failed={**result.failed, **dict.fromkeys(elsewhere, why)}, moved_by=moved_by)
