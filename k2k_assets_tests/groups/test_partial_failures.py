"""Partial failures without a broker: one shard of a commit, one of the groups that a new mapper reads."""

from __future__ import annotations

import threading
import zlib
from pathlib import Path
from typing import Any, cast

import pytest

from k2k_assets.control.group_versions import Version
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups import target_groups
from k2k_assets.groups.committer import SHARDS, GroupCommitter
from k2k_assets.groups.decide import GroupDecision
from k2k_assets.groups.shard import CommitReport
from k2k_assets.groups.target_groups import TargetGroups
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.groups import CommittedOffset, Fetched, GroupKind, GroupOffsets, GroupState
from k2k_assets_tests.support.copies.pipelines import make_pipeline

AT = TopicPartition("t", 0)


class _Shard:
    """Raises at once, or takes its time."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error
        self.has_ended = False

    def commit(self, *_: Any) -> CommitReport:
        if self.error is not None:
            raise self.error
        threading.Event().wait(0.5)
        self.has_ended = True
        return CommitReport()

    def close(self) -> None:
        """Holds nothing."""


def test_a_poll_is_not_over_while_one_of_its_shards_is_at_it(tmp_path: Path) -> None:
    """The next poll would use the same transactional id at the same time: offsets of both in one transaction."""
    pipeline = make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", ["t"])
    committer = GroupCommitter(pipeline, cast("TargetGroups", None), lambda: None)
    shards = [_Shard(ClusterUnreachable("no answer") if not n else None) for n in range(SHARDS)]
    committer._shards = cast("Any", shards)
    names = {zlib.crc32(name.encode()) % SHARDS: name for name in map(str, range(50))}
    decisions = [GroupDecision(names[shard], {AT: 1}, []) for shard in range(SHARDS)]
    with pytest.raises(ClusterUnreachable):
        committer.commit(decisions, Version(1, 1))
    assert all(shard.has_ended for shard in shards[1:])
    committer.close()


def test_a_group_that_cannot_be_read_keeps_no_mapper_from_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its coordinator may be gone for long; each run would fail at its start, after it had ended the one before."""
    held = GroupOffsets("good", {AT: CommittedOffset(4, "k2k_77.8")})
    found = Fetched({"good": held}, {"bad": "its coordinator is gone"})
    states = dict.fromkeys(("good", "bad"), GroupState(GroupKind.CLASSIC, False, "empty"))
    monkeypatch.setattr(target_groups, "list_states", lambda _: states)
    monkeypatch.setattr(target_groups, "fetch_offsets", lambda *_: found)
    assert TargetGroups(cast("Cluster", "target")).committed_versions("k2k_") == {Version(77, 8)}
