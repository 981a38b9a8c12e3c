"""What was seen of consumer groups on a cluster: states, positions, partition ends. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from k2k_assets.core.topic_partition import TopicPartition


class GroupKind(Enum):
    """What kind of group it is. Share groups have no offsets that could be translated."""

    CLASSIC = "classic"
    CONSUMER = "consumer"  # KIP-848
    OTHER = "other"  # share groups, and whatever comes after them: not handled


class GroupState(NamedTuple):
    """A group as the coordinator lists it.

    Attributes:
        kind: Its kind.
        active: Whether it has members, or may have: everything but empty and dead.
        state: The state's name.
    """

    kind: GroupKind
    active: bool
    state: str


class CommittedOffset(NamedTuple):
    """One committed offset.

    Attributes:
        offset: The next offset that the group will read.
        metadata: What the committer wrote beside it; empty if nothing.
        leader_epoch: None if not known.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """All committed offsets of a group.

    Attributes:
        group: Its name.
        offsets: By partition; partitions without a commit are left out.
        unstable: Partitions whose offset nobody knows now: an open transaction of the application holds it back, or the
            broker gave an error for it.
    """

    group: str
    offsets: Mapping[TopicPartition, CommittedOffset]
    unstable: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class Fetched:
    """The answer to a question about many groups.

    Attributes:
        groups: Those that answered. A group that does not exist has no offsets.
        failed: Those that did not, or not for all partitions, each with the reason; the others are not held up.
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
