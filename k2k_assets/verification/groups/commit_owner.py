"""Compares a target group's commit with the position that a poll committed. Pure."""

from __future__ import annotations

from enum import Enum

from k2k_assets.control.group_versions import Version, parse
from k2k_assets.kafka.groups import CommittedOffset


class CommitOwner(Enum):
    """The origin of a target group's commit in one partition."""

    OURS = "ours"  # the translated position
    MOVED = "moved since"  # a later poll or an application has committed since: nothing to compare with
    NOTHING = "nothing"
    OTHER = "another position"


def holding(offset: int, committed: CommittedOffset | None, version: Version, prefix: str) -> CommitOwner:
    """Compares a group's commit with a poll's translation.

    Args:
        offset: The translated position.
        committed: The group's commit; None if there is none.
        version: Version of the poll.
        prefix: `groups.offsetGuardPrefix`.
    """
    if committed is None:
        return CommitOwner.NOTHING
    if committed.offset == offset:
        return CommitOwner.OURS
    found = parse(committed.metadata, prefix)
    return CommitOwner.MOVED if found is None or found > version else CommitOwner.OTHER
