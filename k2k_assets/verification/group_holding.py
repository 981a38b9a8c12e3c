"""What a target group holds, against what was committed for it: pure."""

from __future__ import annotations

from enum import Enum

from k2k_assets.control.group_versions import Version, parse
from k2k_assets.kafka.groups import Committed


class Holding(Enum):
    """What is found in one partition of a target group."""

    OURS = "ours"  # the translated position
    MOVED = "moved since"  # a later poll has moved it, or an application has: nothing to compare with
    NOTHING = "nothing"
    OTHER = "another position"


def holding(offset: int, held: Committed | None, version: Version, prefix: str) -> Holding:
    """Compares what a group holds with what a poll translated.

    Args:
        offset: The translated position.
        held: What the group holds; None: nothing.
        version: Of the poll.
        prefix: `groups.offsetGuardPrefix`.
    """
    if held is None:
        return Holding.NOTHING
    if held.offset == offset:
        return Holding.OURS
    found = parse(held.metadata, prefix)
    return Holding.MOVED if found is None or found > version else Holding.OTHER
