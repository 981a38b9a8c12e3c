"""Values that describe consumer groups on a cluster: states, committed offsets, partition ends. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from k2k_assets.core.topic_partition import TopicPartition


class GroupKind(Enum):
    """The protocol of a group. Share groups have no offsets that could be translated."""

    CLASSIC = "classic"
    CONSUMER = "consumer"  # KIP-848
    OTHER = "other"  # share groups and later kinds: not handled


class GroupState(NamedTuple):
    """A group as the coordinator lists it.

    Attributes:
        kind: The group's protocol.
        active: Whether the group has members, or may have some: true in every state but empty and dead.
        state: Name of the state.
    """

    kind: GroupKind
    active: bool
    state: str


class CommittedOffset(NamedTuple):
    """One committed offset.

    Attributes:
        offset: The next offset that the group will read.
        metadata: The commit metadata; empty if there is none.
        leader_epoch: Leader epoch of the commit; None if not known.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """All committed offsets of a group.

    Attributes:
        group: Name of the group.
        offsets: Committed offsets by partition; partitions without a commit are left out.
        unstable: Partitions whose offset is not known now: it is pending in an open transaction of the application, or
            the broker answered with an error.
    """

    group: str
    offsets: Mapping[TopicPartition, CommittedOffset]
    unstable: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class Fetched:
    """The answer to a question about many groups.

    Attributes:
        groups: The groups with an answer. A group that does not exist has no offsets.
        failed: The groups without an answer for all their partitions, each with the reason.
    """

    groups: dict[str, GroupOffsets] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


class Ends(NamedTuple):
    """The ends of a partition's log.

    Attributes:
        start: First offset that can be read (log start).
        end: Offset after the last one that can be read (last stable offset).
    """

    start: int
    end: int
