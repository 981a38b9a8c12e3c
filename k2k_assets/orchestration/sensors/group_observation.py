"""What a tick of the offset sync sensor asks the clusters: where groups stand, and how far copying is."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from k2k_assets import discovery
from k2k_assets.control.commit_log import read_commit_log
from k2k_assets.control.group_versions import parse
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.source_groups import SourceGroups
from k2k_assets.groups.target_groups import TargetGroups, TargetObservation
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.kafka.leaders import offsets_where_led
from k2k_assets.orchestration.sensors.group_decision import standing
from k2k_assets.orchestration.sensors.observation import CALL_SECONDS, READ_SECONDS
from k2k_assets.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class GroupObservation:
    """What was seen.

    Attributes:
        groups: What `group_decision.standing` says of each.
        copied: Whether anything has been copied yet.
        unread: Groups of which some or all could not be read, on either cluster; they are not in `groups`.
    """

    groups: dict[str, str]
    copied: bool
    unread: frozenset[str] = frozenset()


def observe_groups(pipeline: Pipeline) -> GroupObservation:
    """Asks both clusters, and brings the discovery state file up to date.

    Raises:
        K2KError: A cluster does not answer, or the commit log cannot be read.
    """
    with both_clusters(pipeline, CALL_SECONDS) as (source, target):
        found = discovery.refresh(pipeline, source, target)
        seen = SourceGroups(source, discovery.selection_of(pipeline)).observe(found.topics)
        copies = {topic.target for topic in found.topics.values() if topic.target is not None}
        held = TargetGroups(target).observe(seen.groups)
        on_target = _on_target(target, held, copies, pipeline.groups.offset_guard_prefix)
        log = read_commit_log(pipeline, found.source_cluster, target, patience=READ_SECONDS)
    copied = {tp: record.position for tp, record in log.positions.items()}
    unread = frozenset({*seen.failed, *held.failed})
    groups = {
        name: standing(
            {tp: committed.offset for tp, committed in group.offsets.items()}, copied, on_target.get(name, ())
        )
        for name, group in seen.groups.items()
        if group.offsets and name not in unread
    }
    return GroupObservation(groups, bool(copied), unread)


def _on_target(target: Cluster, found: TargetObservation, copies: Collection[str], prefix: str) -> dict[str, list[str]]:
    """Why a group may have to be moved on the target though it stands still on the source.

    A topic that is created anew takes the commits on it with it; one that stood in the way may have been deleted. In a
    partition that has no leader nobody is moved, until it has one.
    """
    described = target.describe(copies).values()
    partitions = {TopicPartition(topic.name, p) for topic in described for p in range(topic.partitions)}
    ours = {
        (name, tp): committed.offset
        for name, group in found.groups.items()
        for tp, committed in group.offsets.items()
        if parse(committed.metadata, prefix)
    }
    starts, offline = offsets_where_led(target, {*partitions, *(tp for _, tp in ours)}, "earliest")
    of_all = [
        *(f"{topic.name} is {topic.topic_id}" for topic in described),
        *(f"no leader {tp}" for tp in offline),
    ]
    said: dict[str, list[str]] = {name: list(of_all) for name in found.groups}
    for name, group in found.groups.items():
        foreign = (tp for tp, committed in group.offsets.items() if not parse(committed.metadata, prefix))
        said[name] += [f"foreign {tp}" for tp in foreign if tp.topic in copies]
    for (name, tp), offset in ours.items():
        if offset < starts.get(tp, 0):
            said[name].append(f"expired {tp}")
    for name in found.groups:
        if name in found.states and found.states[name].active:
            said[name].append("active")
    return said
