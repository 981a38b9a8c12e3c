"""What a tick of the offset sync sensor asks the clusters: where groups stand, and how far copying is."""

from __future__ import annotations

from dataclasses import dataclass

from k2k_assets.automation import discovery
from k2k_assets.automation.group_moves import standing
from k2k_assets.automation.look import CALL_SECONDS
from k2k_assets.groups.source_groups import SourceGroups
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.commit_log import read_commit_log
from k2k_assets.resources.clusters import both_clusters


@dataclass(frozen=True, slots=True)
class GroupLook:
    """What was seen.

    Attributes:
        groups: What `group_moves.standing` says of each.
        copied: Whether anything has been copied yet.
    """

    groups: dict[str, str]
    copied: bool


def look_at_groups(pipeline: Pipeline) -> GroupLook:
    """Asks both clusters, and brings the discovery state file up to date.

    Raises:
        K2KError: A cluster does not answer, or the commit log cannot be read.
    """
    with both_clusters(pipeline, CALL_SECONDS) as (source, target):
        found = discovery.refresh(pipeline, source, target)
        seen = SourceGroups(source, discovery.selection_of(pipeline)).observe(found.topics)
        log = read_commit_log(pipeline, found.source_cluster, target)
    copied = {tp: record.position for tp, record in log.positions.items()}
    groups = {
        name: standing({tp: committed.offset for tp, committed in group.offsets.items()}, copied)
        for name, group in seen.groups.items()
        if group.offsets
    }
    return GroupLook(groups, bool(copied))
