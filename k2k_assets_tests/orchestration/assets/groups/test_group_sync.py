"""The mapper in a Dagster step: it continues until another one takes over, and a failing group fails alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2k_assets.control.group_versions import Version
from k2k_assets.core.errors import ClusterUnreachable, Superseded
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.decide import CommitDecision, GroupDecision, Row
from k2k_assets.groups.policies import ensure_none_active
from k2k_assets.groups.poller import Poller
from k2k_assets.groups.report import PollFailed, PollResult
from k2k_assets.kafka.groups import CommittedOffset
from k2k_assets.orchestration.assets.groups import group_sync
from k2k_assets.orchestration.assets.groups.group_sync import newest_poll
from k2k_assets_tests.support.copies.pipelines import make_pipeline


def test_a_poll_that_fails_is_told_and_tried_again_until_it_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, told = threading.Event(), list[PollResult | PollFailed]()
    good = PollResult(Version(1, 2), committed=frozenset("g"))
    polls: Iterator[PollResult | ClusterUnreachable] = iter([good, ClusterUnreachable("no answer"), good])

    def poll(self: Poller) -> PollResult:
        answer = next(polls)
        if isinstance(answer, ClusterUnreachable):
            raise answer
        return answer

    def listen(event: PollResult | PollFailed) -> None:
        told.append(event)
        if len(told) == 3:
            stop.set()

    monkeypatch.setattr(Poller, "start", lambda self: None)
    monkeypatch.setattr(Poller, "poll", poll)
    monkeypatch.setattr(Poller, "await_visible", lambda self, result: None)
    pipeline = make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", "t", groups={"pollInterval": "1 millisecond"})
    assert group_sync.keep_in_step(pipeline, stop, listen, "r1", str) == ""
    assert told == [good, PollFailed("no answer"), good]


def test_it_ends_when_another_mapper_takes_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def poll(self: Poller) -> PollResult:
        raise Superseded("a newer one has taken over")

    monkeypatch.setattr(Poller, "start", lambda self: None)
    monkeypatch.setattr(Poller, "poll", poll)
    pipeline = make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", "t")
    ended = group_sync.keep_in_step(pipeline, threading.Event(), print, "r1", str)
    assert ended == "a newer one has taken over"


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
    monkeypatch.setattr(group_sync, "running_mapper", lambda *_: "")
    for policy, failed in (("fail", {"met", "late"}), ("ignore", set())):
        handling = {"onActiveConsumerGroupCommit": policy}
        pipeline = make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", "t", errorHandling=handling)
        found = group_sync.sync_groups(pipeline)
        assert set(found.failed) == failed
        assert found.committed == {"left"}
        assert all("has members on the target cluster" in why for why in found.failed.values())


def test_a_poll_that_nobody_has_looked_at_tells_its_commits_with_the_next_one() -> None:
    before, after = (PollResult(Version(1, n), committed=frozenset({name})) for n, name in ((1, "a"), (2, "b")))
    both = newest_poll(before, after)
    assert isinstance(both, PollResult)
    assert (both.version, both.committed) == (Version(1, 2), frozenset("ab"))
    assert newest_poll(before, PollFailed("no answer")) is None
    assert newest_poll(PollFailed("no answer"), after) is None
    assert newest_poll(PollFailed("no answer"), PollFailed("not yet")) == PollFailed("not yet")
