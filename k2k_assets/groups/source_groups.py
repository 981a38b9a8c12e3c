"""Reads the source's consumer groups and their positions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.group_reader import fetch_offsets, list_others, list_states
from k2k_assets.kafka.groups import GroupOffsets, GroupState
from k2k_assets.pipeline.sections.group_selection import GroupSelection


@dataclass(frozen=True, slots=True)
class SourceObservation:
    """The source's groups at one moment.

    Attributes:
        groups: Selected groups with a commit on one of the topics, with the partitions of those topics only.
        states: State of every selected group, including those without such a commit.
        not_handled: Selected groups that are no consumer groups (share groups, Kafka Connect's).
        failed: Groups with offsets that could not be read this time, each with the reason.
        absent: Groups that are selected by name, and do not exist.
    """

    groups: dict[str, GroupOffsets]
    states: dict[str, GroupState]
    not_handled: tuple[str, ...]
    failed: dict[str, str]
    absent: tuple[str, ...] = ()


class SourceGroups:
    """Reads the source's groups through an admin client.

    Args:
        cluster: The source.
        selection: Selects groups by name.
    """

    def __init__(self, cluster: Cluster, selection: GroupSelection) -> None:
        self._cluster = cluster
        self._selection = selection

    def observe(self, topics: Collection[str]) -> SourceObservation:
        """Lists the groups and reads their stable offsets.

        Args:
            topics: The mapped source topics.

        Raises:
            ClusterUnreachable: The cluster did not answer at all; single groups without an answer are in `failed`.
            Refused: The principal may not list groups.
        """
        listed = list_states(self._cluster, partial=True)
        states = {group: state for group, state in listed.items() if self._selection.matches(group)}
        others = [group for group in list_others(self._cluster, listed) if self._selection.matches(group)]
        found = fetch_offsets(self._cluster, states, topics)
        groups = {name: group for name, group in found.groups.items() if group.offsets or group.unstable}
        absent = self._selection.absent({*states, *others})
        return SourceObservation(groups, states, tuple(others), found.failed, absent)
