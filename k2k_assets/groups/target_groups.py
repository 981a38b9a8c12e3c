"""The target's consumer groups: what they hold, and whether somebody is in them. Only reads."""

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
        states: Of the groups that exist, also of those that are no consumer groups.
        groups: What each of the asked groups holds; one that does not exist holds nothing.
        failed: Groups of whose offsets some or all could not be read this time, each with the reason: nothing may be
            committed for them.
    """

    states: Mapping[str, GroupState]
    groups: dict[str, GroupOffsets]
    failed: dict[str, str]


_OTHER = GroupState(GroupKind.OTHER, False, "unknown")


class TargetGroups:
    """The target's groups seen through its admin client.

    Args:
        cluster: The target.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def observe(self, groups: Collection[str]) -> TargetObservation:
        """Reads states and stable offsets.

        Args:
            groups: Their names.

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

    def changed(self, expected: Mapping[str, Mapping[TopicPartition, CommittedOffset | None]]) -> dict[str, str]:
        """The groups that hold something else than they did, each with what to say of it.

        What open transactions have sent does not count.

        Args:
            expected: By group, what it held in some partitions; None: nothing.

        Raises:
            ClusterUnreachable: The cluster did not answer.
        """
        found = fetch_offsets(self._cluster, expected, stable=False)
        changed = dict(found.failed)
        for group, held in expected.items():
            if group in changed:
                continue
            now = found.groups[group].offsets
            for partition, before in held.items():
                if now.get(partition) != before:
                    changed[group] = (
                        f"what it holds in {partition} on the {self._cluster} is not what it was when it was looked "
                        "at: somebody else has committed, so nothing was. The next try goes by that"
                    )
                    break
        return changed

    def states(self) -> dict[str, GroupState]:
        """The state of every group, in one request to each broker."""
        return list_states(self._cluster)

    def held_versions(self, prefix: str) -> set[Version]:
        """All versions that groups hold: a new mapper's generation is above them (`versions.generation_above`).

        What cannot be read now is found out by the poll that can: a group whose coordinator is gone keeps no other from
        being moved.

        Raises:
            ClusterUnreachable: The cluster did not answer.
        """
        found = fetch_offsets(self._cluster, self.states())
        for group, why in found.failed.items():
            log.info("the offsets of group %s on the %s cannot be read yet: %s", group, self._cluster, why)
        held = {committed.metadata for group in found.groups.values() for committed in group.offsets.values()}
        return {version for metadata in held if (version := parse(metadata, prefix))}
