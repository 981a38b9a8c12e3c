"""A window of polling ends, whatever the clusters do."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from k2k_assets.control.group_versions import Version
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.decide import CommitDecision, GroupDecision, Row
from k2k_assets.groups.policies import ensure_none_active
from k2k_assets.groups.poller import Poller
from k2k_assets.groups.report import PollResult
from k2k_assets.kafka.groups import CommittedOffset
from k2k_assets.orchestration.assets import group_sync
from k2k_assets_tests.support.pipelines import make_pipeline


@pytest.mark.parametrize(("good_polls", "window"), [(0, 0.5), (2, 3.0)])
def test_a_cluster_that_does_not_answer_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, good_polls: int, window: float
) -> None:
    polls: list[float] = []

    def poll(self: Poller) -> PollResult:
        polls.append(time.monotonic())
        if len(polls) > good_polls:
            raise ClusterUnreachable("it does not answer")
        return PollResult(Version(1, 2), committed=frozenset("g"))

    monkeypatch.setattr(Poller, "start", lambda self: None)
    monkeypatch.setattr(Poller, "poll", poll)
    pipeline = make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", "t", groups={"pollInterval": "50 milliseconds"})
    with pytest.raises(ClusterUnreachable, match="it does not answer"):
        group_sync.sync_groups(pipeline, window, print)
    assert len(polls) > good_polls + 1
    assert polls[-1] - polls[0] < 30


def test_a_group_that_is_active_on_the_target_fails_itself_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = TopicPartition("t", 0)

    def decision(group: str, word: CommitDecision) -> GroupDecision:
        row = Row(at, ((at, CommittedOffset(5)),), 5, None, word, word is CommitDecision.EXACT)
        return GroupDecision(group, {at: 5} if row.commit else {}, [row])

    decided = {"left": decision("left", CommitDecision.EXACT), "met": decision("met", CommitDecision.ACTIVE)}
    decided["late"] = decision("late", CommitDecision.EXACT)  # it got members while it was committed
    result = PollResult(Version(1, 2), decided, committed=frozenset({"left"}), active=frozenset({"late"}))
    monkeypatch.setattr(Poller, "start", lambda self: None)
    monkeypatch.setattr(Poller, "await_visible", lambda self, result: None)

    def poll(self: Poller) -> PollResult:
        ensure_none_active(decided.values(), self._policies.on_active_consumer_group_commit, result.active)
        return result

    monkeypatch.setattr(Poller, "poll", poll)
    for policy, failed in (("fail", {"met", "late"}), ("ignore", set())):
        handling = {"onActiveConsumerGroupCommit": policy}
        pipeline = make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", "t", errorHandling=handling)
        found = group_sync.sync_groups(pipeline, 0, print)
        assert set(found.failed) == failed
        assert found.committed == {"left"}
        assert all("has members on the target cluster" in why for why in found.failed.values())
