"""Finds the living instances that have claimed partitions: an override asks before it fences them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from k2k_assets.control.assignment_records import Claim
from k2k_assets.control.assignment_state import Assignments
from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.coordination.liveness import Liveness, heartbeat_timeout_seconds
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline

log = logging.getLogger("k2k.overrides")

_POLL_SECONDS = 0.1

Holders = dict[str, list[TopicPartition]]
"""Partitions that are claimed and not released, by the text that names the instance."""


def live_holders(pipeline: Pipeline, target: Cluster, wanted: Mapping[tuple[str, int], TopicPartition]) -> Holders:
    """The living instances that have claimed partitions.

    It watches the claimants until one of them writes a heartbeat, or until all have been silent for the heartbeat
    timeout.

    Args:
        pipeline: Names group and topic.
        target: The target cluster.
        wanted: The partitions, by topic id and number.

    Raises:
        ClusterUnreachable: The assignment topic cannot be read.
        Refused: The assignment topic was deleted or created anew meanwhile.
    """
    with AssignmentTail(pipeline, target) as tail:
        liveness = Liveness(tail.state, heartbeat_timeout_seconds(pipeline))
        tail.catch_up()
        liveness.note()
        is_told = False
        while held := [c for c in tail.state.claims.values() if c.what in wanted and liveness.is_alive(c.owner)]:
            alive = {claim.generation for claim in held if liveness.has_shown(claim.owner)}
            if alive:
                return _by_instance(tail.state, [claim for claim in held if claim.generation in alive], wanted)
            if not is_told:
                is_told = True
                log.info("waiting for a sign of life of %s", ", ".join(_by_instance(tail.state, held, wanted)))
            tail.refresh(_POLL_SECONDS)
            liveness.note()
    return {}


def _by_instance(state: Assignments, claims: list[Claim], wanted: Mapping[tuple[str, int], TopicPartition]) -> Holders:
    holders: Holders = {}
    for claim in claims:
        instance = state.instances.get(claim.generation)
        who = str(instance) if instance else state.describe(claim.generation)
        holders.setdefault(who, []).append(wanted[claim.what])
    return {who: sorted(partitions) for who, partitions in holders.items()}
