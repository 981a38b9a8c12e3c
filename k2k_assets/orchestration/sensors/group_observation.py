"""Reads the clusters for a tick of the offset sync sensor: the groups, and the living mappers."""

from __future__ import annotations

from dataclasses import dataclass

from k2k_assets import discovery
from k2k_assets.coordination.liveness import Presence
from k2k_assets.discovery import Discovery
from k2k_assets.groups.claim import MapperClaims
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.orchestration.sensors.observation import CALL_SECONDS
from k2k_assets.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class GroupObservation:
    """The result for a tick.

    Attributes:
        found: Topics and groups.
        mapped: Whether the mapping topic exists.
        mappers: Continuous mappers, by name.
    """

    found: Discovery
    mapped: bool
    mappers: dict[str, Presence]

    @property
    def nothing_to_do(self) -> str:
        """Why no run is needed; empty if one is."""
        if not self.found.groups:
            return "no selected consumer group of the source has a commit on a topic that is copied"
        return "" if self.mapped else "nothing is copied yet, so no position can be translated"


def observe_groups(pipeline: Pipeline) -> GroupObservation:
    """Reads both clusters, and updates the discovery state file.

    Raises:
        K2KError: A cluster does not answer, or the assignment topic cannot be read.
    """
    assignment, mappings = pipeline.coordination.assignment.topic, pipeline.offset_mapping.topic
    with both_clusters(pipeline, CALL_SECONDS) as (source, target):
        found = discovery.refresh(pipeline, source, target)
        there = target.describe([assignment, mappings])
        mappers = _mappers(pipeline, target) if assignment in there else {}
    return GroupObservation(found, mappings in there, mappers)


def _mappers(pipeline: Pipeline, target: Cluster) -> dict[str, Presence]:
    with MapperClaims(pipeline, target, CALL_SECONDS) as claims:
        return {
            heartbeat.mapper: Presence(sign=offset, who=str(heartbeat), run=heartbeat.run)
            for offset, heartbeat in claims.heartbeats().items()
        }
