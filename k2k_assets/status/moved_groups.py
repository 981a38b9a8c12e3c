"""Counts the consumer groups that a pipeline moves. Only reads."""

from __future__ import annotations

from collections.abc import Collection

from k2k_assets.core.errors import K2KError
from k2k_assets.groups.source_groups import SourceGroups
from k2k_assets.groups.target_groups import TargetGroups
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.group_selection import GroupSelection
from k2k_assets.status.copy_status import MovedGroups


def moved_groups(pipeline: Pipeline, source: Cluster, target: Cluster, topics: Collection[str]) -> MovedGroups | None:
    """Counts the groups; None if the pipeline maps no offsets.

    Args:
        pipeline: Selects the groups.
        source: The source cluster.
        target: The target cluster.
        topics: The copied topics of the source.
    """
    if not pipeline.features.offset_mapping:
        return None
    try:
        selected = SourceGroups(source, GroupSelection(pipeline.groups.consumer_groups)).observe(topics).groups
        held = TargetGroups(target).observe(selected).groups
    except K2KError as error:
        return MovedGroups(unknown=str(error))  # a principal may copy without the right to see groups
    return MovedGroups(len(selected), sum(bool(group.offsets) for group in held.values()))
