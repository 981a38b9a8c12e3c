"""Looks where groups stand while somebody else moves them: what a click in Dagster is answered from.

A mapper of its own would take over from the one that runs, which then ends.
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
# How long the other one has for its next polls.
_SHORTEST_PATIENCE = 10.0
_POLLS = 3


def running_mapper(pipeline: Pipeline, target: Cluster) -> str:
    """Who moves the groups of a pipeline without end, and is alive for sure; for people. Empty if nobody does.

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


def look(pipeline: Pipeline) -> PollResult:
    """Where groups stand and belong, at one look; nothing is moved.

    Raises:
        K2KError: A cluster does not answer, or something stands against it.
    """
    with both_clusters(pipeline) as (source, target), Poller(pipeline, source, target) as poller:
        poller.look_on()
        return poller.poll()


def look_on(pipeline: Pipeline, moved_by: str) -> PollResult:
    """Where groups stand, once they are where they belong, or after a few polls of who moves them.

    Args:
        pipeline: Whose groups.
        moved_by: Who moves them.

    Returns:
        The last look; the groups that do not stand where they belong are among its failed ones.

    Raises:
        K2KError: A cluster does not answer, or something stands against it.
    """
    patience = Deadline(max(_SHORTEST_PATIENCE, _POLLS * pipeline.groups.poll_interval.total_seconds()))
    with both_clusters(pipeline) as (source, target), Poller(pipeline, source, target) as poller:
        poller.look_on()
        while True:
            result = poller.poll()
            elsewhere = [group for group, decision in result.decisions.items() if decision.commits]
            if not elsewhere or patience.expired():
                break
            time.sleep(_PAUSE_SECONDS)
    why = f"{moved_by} moves the groups, and has not moved this one: its log says why. Stop it to move groups by hand"
    return replace(result, failed={**result.failed, **dict.fromkeys(elsewhere, why)}, moved_by=moved_by)
