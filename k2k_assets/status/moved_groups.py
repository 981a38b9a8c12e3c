"""Reads the consumer groups that a pipeline moves."""

from __future__ import annotations

from collections.abc import Collection

from k2k_assets.core.errors import K2KError
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.source_groups import SourceGroups
from k2k_assets.groups.target_groups import TargetGroups
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.groups import GroupOffsets
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.sections.group_selection import GroupSelection
from k2k_assets.status.copy_status import MovedGroup, MovedGroups


def moved_groups(pipeline: Pipeline, source: Cluster, target: Cluster, topics: Collection[str]) -> MovedGroups | None:
    """Reads the positions of the groups on both clusters; None if the pipeline maps no offsets.

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
    return MovedGroups(
        tuple(MovedGroup(name, _offsets(selected[name]), _offsets(held.get(name))) for name in sorted(selected))
    )


def _offsets(group: GroupOffsets | None) -> dict[TopicPartition, int]:
    return {tp: committed.offset for tp, committed in group.offsets.items()} if group else {}
