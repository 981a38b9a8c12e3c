"""Reads the target's consumer groups: their commits, and whether they have members."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from k2k_assets.control.group_versions import Version, parse
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.group_reader import fetch_offsets, list_others, list_states
from k2k_assets.kafka.groups import CommittedOffset, GroupKind, GroupOffsets, GroupState

log = logging.getLogger("k2k.groups")


@dataclass(frozen=True, slots=True)
class TargetObservation:
    """Some of the target's groups at one moment.

    Attributes:
        states: States of all existing groups, including those that are no consumer groups.
        groups: Commits of each wanted group; a group that does not exist has none.
        failed: Groups with offsets that could not be read this time, each with the reason; nothing may be committed
            for them.
    """

    states: Mapping[str, GroupState]
    groups: dict[str, GroupOffsets]
    failed: dict[str, str]


_OTHER = GroupState(GroupKind.OTHER, False, "unknown")


class TargetGroups:
    """Reads the target's groups through an admin client.

    Args:
        cluster: The target.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def observe(self, groups: Collection[str]) -> TargetObservation:
        """Reads states and stable offsets.

        Args:
            groups: Names of the wanted groups.

        Raises:
            ClusterUnreachable: The cluster did not answer.
            Refused: The cluster does not let its groups be listed.
        """
        wanted = list(groups)
        states = self.states()
        states.update((name, _OTHER) for name in list_others(self._cluster, states))
        found = fetch_offsets(self._cluster, [name for name in wanted if name in states])
        for name in wanted:
            if name not in states:
                found.groups[name] = GroupOffsets(name, {})
        return TargetObservation(states, found.groups, found.failed)

    def changed(
        self, expected: Mapping[str, Mapping[TopicPartition, CommittedOffset | None]], stable: bool = False
    ) -> dict[str, str]:
        """The groups whose commits have changed, each with the reason for people.

        Args:
            expected: Earlier commits of each group in some partitions; None: no commit.
            stable: Whether offsets that are pending in open transactions count as changes; for a caller who has none
                pending itself.

        Raises:
            ClusterUnreachable: The cluster did not answer.
        """
        found = fetch_offsets(self._cluster, expected, stable=stable, named=expected)
        changed = dict(found.failed)
        for group, committed in expected.items():
            if group in changed:
                continue
            now = found.groups[group].offsets
            for partition, before in committed.items():
                if now.get(partition) != before:
                    changed[group] = (
                        f"what it holds in {partition} on the {self._cluster} is not what it was when it was looked "
                        "at: somebody else has committed, so nothing was. The next try goes by that"
                    )
                    break
        return changed

    def pending(self, partitions: Mapping[str, Collection[TopicPartition]]) -> dict[str, tuple[TopicPartition, str]]:
        """The groups with offsets that are pending in open transactions.

        Args:
            partitions: By group the partitions to look at, be it that the group has no commit there yet.

        Returns:
            By group the first of these partitions, and the reason for people.

        Raises:
            ClusterUnreachable: The cluster did not answer.
        """
        found = fetch_offsets(self._cluster, partitions, named=partitions)
        unstable = {name: group.unstable for name, group in found.groups.items() if group.unstable}
        return {name: (min(those), found.failed[name]) for name, those in unstable.items()}

    def states(self) -> dict[str, GroupState]:
        """The state of every group, in one request to each broker."""
        return list_states(self._cluster)

    def committed_versions(self, prefix: str) -> set[Version]:
        """All versions in the groups' commits; a new mapper's generation is above them (`generation_above`).

        Groups that cannot be read now are left out, so that a missing coordinator does not keep other groups from being
        moved; the first poll that can read them sees their versions.

        Raises:
            ClusterUnreachable: The cluster did not answer.
        """
        found = fetch_offsets(self._cluster, self.states())
        for group, why in found.failed.items():
            log.info("the offsets of group %s on the %s cannot be read yet: %s", group, self._cluster, why)
        texts = {committed.metadata for group in found.groups.values() for committed in group.offsets.values()}
        return {version for metadata in texts if (version := parse(metadata, prefix))}
