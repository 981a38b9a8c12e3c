"""What a target group holds, against what was committed for it: pure."""

from __future__ import annotations

from enum import Enum

from k2k_assets.control.group_versions import Version, parse
from k2k_assets.kafka.groups import CommittedOffset


class CommitOwner(Enum):
    """What is found in one partition of a target group."""

    OURS = "ours"  # the translated position
    MOVED = "moved since"  # a later poll has moved it, or an application has: nothing to compare with
    NOTHING = "nothing"
    OTHER = "another position"


def holding(offset: int, held: CommittedOffset | None, version: Version, prefix: str) -> CommitOwner:
    """Compares what a group holds with what a poll translated.

    Args:
        offset: The translated position.
        held: What the group holds; None: nothing.
        version: Of the poll.
        prefix: `groups.offsetGuardPrefix`.
    """
    if held is None:
        return CommitOwner.NOTHING
    if held.offset == offset:
        return CommitOwner.OURS
    found = parse(held.metadata, prefix)
    return CommitOwner.MOVED if found is None or found > version else CommitOwner.OTHER
