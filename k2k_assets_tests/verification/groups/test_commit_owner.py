"""The offset of a target group, compared with the offset that was committed for it."""

from __future__ import annotations

import pytest

from k2k_assets.control.group_versions import Version
from k2k_assets.kafka.groups import CommittedOffset
from k2k_assets.verification.groups.commit_owner import CommitOwner, holding


@pytest.mark.parametrize(
    ("committed", "found"),
    [
        (None, CommitOwner.NOTHING),
        (CommittedOffset(7, "k2k_3.100"), CommitOwner.OURS),
        (CommittedOffset(7, "by hand"), CommitOwner.OURS),
        (CommittedOffset(8, "k2k_3.100"), CommitOwner.OTHER),
        (CommittedOffset(8, "k2k_3.99"), CommitOwner.OTHER),
        (CommittedOffset(6, "k2k_2.900"), CommitOwner.OTHER),
        (CommittedOffset(8, "k2k_3.101"), CommitOwner.MOVED),
        (CommittedOffset(8, "k2k_4.1"), CommitOwner.MOVED),
        (CommittedOffset(8, ""), CommitOwner.MOVED),
        (CommittedOffset(6, "by hand"), CommitOwner.MOVED),
    ],
)
def test_what_is_held(committed: CommittedOffset | None, found: CommitOwner) -> None:
    """Whether a target group's commit is that of the poll, of somebody later, or wrong."""
    assert holding(7, committed, Version(3, 100), "k2k_") is found
