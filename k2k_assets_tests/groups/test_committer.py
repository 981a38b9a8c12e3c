"""Fenced commits on a real cluster."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any, Literal, cast

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaTopicPartition

from k2k_assets.control.group_versions import Version
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import Superseded
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups import committer as committer_module
from k2k_assets.groups import shard
from k2k_assets.groups.committer import SHARDS, GroupCommitter
from k2k_assets.groups.decide import CommitDecision, GroupDecision, Row
from k2k_assets.groups.shard import CommitReport
from k2k_assets.groups.target_groups import TargetGroups
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.group_reader import fetch_offsets
from k2k_assets.kafka.groups import CommittedOffset, GroupKind, GroupState
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.groups import (
    await_held,
    commit,
    delete_group,
    held,
    joining,
    member,
    open_offset_transaction,
)
from k2k_assets_tests.support.brokers.kafka import PATIENCE, SECONDS, create_topic, delete_topic, produce, unique
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = pytest.mark.integration

FIRST, SECOND = Version(1, 1), Version(2, 1)


class Hooked(TargetGroups):
    """Does something once, after the groups were looked at: between the sending of the offsets and their commit."""

    after_look: Callable[[], None] | None = None
    after_pending: Callable[[], None] | None = None

    def pending(self, partitions: Mapping[str, Collection[TopicPartition]]) -> dict[str, tuple[TopicPartition, str]]:
        seen = super().pending(partitions)
        if self.after_pending:
            do, self.after_pending = self.after_pending, None
            do()
        return seen

    def changed(
        self, expected: Mapping[str, Mapping[TopicPartition, CommittedOffset | None]], stable: bool = False
    ) -> dict[str, str]:
        seen = super().changed(expected, stable)
        if self.after_look:
            do, self.after_look = self.after_look, None
            do()
        return seen


class Place:
    """A pipeline, a topic on the target, and committers."""

    def __init__(self, pipeline: Pipeline, servers: str, stack: ExitStack) -> None:
        self.pipeline = pipeline
        self.servers = servers
        self.topic = create_topic(servers, unique("t"), 2)
        self.t0, self.t1 = TopicPartition(self.topic, 0), TopicPartition(self.topic, 1)
        cluster = stack.enter_context(Cluster("target", {"bootstrap.servers": servers}))
        self.groups = Hooked(cluster)
        self._stack = stack
        self.newest: GroupCommitter | None = None
        self.after_look_at_claims: Callable[[], None] | None = None

    def committer(self, timeout: float = SECONDS) -> GroupCommitter:
        """Another mapper's, not yet claimed; whose claim comes last is the newest."""
        made: list[GroupCommitter] = []

        def ensure_newest() -> None:
            if self.newest not in made:
                raise Superseded("a newer mapper")
            if self.after_look_at_claims:
                do, self.after_look_at_claims = self.after_look_at_claims, None
                do()

        made.append(GroupCommitter(self.pipeline, self.groups, ensure_newest, timeout))
        return self._stack.enter_context(made[0])

    def claimed(self, timeout: float = SECONDS) -> GroupCommitter:
        committer = self.committer(timeout)
        self.newest = committer
        committer.claim()
        return committer

    def decision(self, group: str, offset: int, more: Mapping[TopicPartition, int] | None = None) -> GroupDecision:
        return GroupDecision(group, {self.t0: offset, **(more or {})}, [])

    def seen(self, group: str, offset: int) -> GroupDecision:
        """By what the group holds now."""
        before = held(self.servers, group).get(self.t0)
        row = Row(self.t0, (), offset, CommittedOffset(*before) if before else None, CommitDecision.EXACT, True)
        return GroupDecision(group, {self.t0: offset}, [row])


@pytest.fixture
def place(clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    # Members join within a transaction, which takes its time on a busy machine.
    monkeypatch.setattr(committer_module, "TRANSACTION_TIMEOUT_MS", 150_000)
    pipeline = make_pipeline(tmp_path, clusters.source_servers, clusters.target_servers, ["t"])
    with ExitStack() as stack:
        yield Place(pipeline, clusters.target_servers, stack)


def test_many_groups_with_their_version(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard, "BATCH_GROUPS", 7)
    names = [unique("g") for _ in range(60)]
    commit(place.servers, names[0], {place.t1: 3}, "untouched")
    committer = place.claimed()
    decisions = [place.decision(name, at) for at, name in enumerate(names)]
    report = committer.commit([*decisions, GroupDecision(unique("nothing-to-do"), {}, [])], FIRST)
    assert sorted(report.committed) == sorted(names)
    assert (report.active, report.failed) == ([], {})
    await_held(place.servers, names[0], {place.t0: (0, "k2k_1.1"), place.t1: (3, "untouched")})
    await_held(place.servers, names[59], {place.t0: (59, "k2k_1.1")})
    assert len(committer.commit([place.decision(name, 5) for name in names], SECOND).committed) == 60
    for name in names[1:8]:
        await_held(place.servers, name, {place.t0: (5, "k2k_2.1")})


def test_no_leader_epoch_is_committed(place: Place) -> None:
    """The source's would make consumers of the target look for a truncation that never was."""
    group = unique("g")
    assert place.claimed().commit([place.decision(group, 5)], FIRST).committed == [group]
    await_held(place.servers, group, {place.t0: (5, "k2k_1.1")})
    with Cluster("target", {"bootstrap.servers": place.servers}) as target:
        assert fetch_offsets(target, [group]).groups[group].offsets == {place.t0: CommittedOffset(5, "k2k_1.1", None)}


def test_groups_with_members_are_left_alone(place: Place) -> None:
    classic, modern, empty = (unique(name) for name in ("classic", "modern", "empty"))
    committer = place.claimed()
    decisions = [place.decision(name, 8) for name in (classic, modern, empty)]
    with member(place.servers, modern, place.topic, "consumer"):
        with member(place.servers, classic, place.topic, "classic"):
            report = committer.commit(decisions, FIRST)
            assert sorted(report.active) == sorted([classic, modern])
            assert (report.committed, report.failed) == ([empty], {})
            assert held(place.servers, classic) == held(place.servers, modern) == {}
        report = committer.commit(decisions, SECOND)
        assert report.active == [modern]
    report = committer.commit(decisions, SECOND)
    assert sorted(report.committed) == sorted([classic, modern, empty])
    # An empty group of the new protocol stays one.
    assert place.groups.states()[modern] == GroupState(GroupKind.CONSUMER, False, "empty")
    await_held(place.servers, modern, {place.t0: (8, "k2k_2.1")})


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_joins_after_the_look_gets_the_committed_position(
    place: Place, protocol: Literal["classic", "consumer"]
) -> None:
    """The group is active when its offsets are committed, and its member waits for them."""
    group = unique("late")
    produce(place.servers, place.topic, [b"%d" % n for n in range(9)], 0)
    with ExitStack() as stack:
        joined = []

        def join() -> None:
            joined.append(stack.enter_context(member(place.servers, group, place.topic, protocol)))

        committer = place.claimed()
        place.groups.after_look = join
        report = committer.commit([place.decision(group, 6, {place.t1: 0})], FIRST)
        assert report.committed == [group]
        first = wait_until(lambda: joined[0].poll(0.5), SECONDS, "a record")
        assert first is not None
        assert (first.partition(), first.offset()) == (0, 6)


def _share(*members: Consumer) -> bool:
    """Lets members go on with a rebalance; whether each has a partition of two."""
    for each in members:
        each.poll(0.05)
    return all(len(each.assignment()) == 1 for each in members)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_that_come_and_go_keep_what_they_have_committed(
    place: Place, protocol: Literal["classic", "consumer"]
) -> None:
    """The mapper commits newer positions as quickly as it can, while members join, commit, rebalance and leave."""
    committer, number = place.claimed(), count(1)

    def move(group: str, stop: Event, reports: list[CommitReport]) -> None:
        """As polls do; what a consumer has committed is foreign from then on."""
        while not stop.is_set():
            before = held(place.servers, group).get(place.t0)
            if before is None or before[1].startswith("k2k_"):
                version = next(number)
                reports.append(committer.commit([place.seen(group, version)], Version(1, version)))

    for _ in range(2):
        group, stop, reports = unique("busy"), Event(), list[CommitReport]()
        mapper = Thread(target=move, args=(group, stop, reports))
        mapper.start()
        try:
            wait_until(lambda: len(reports) > 2, SECONDS, "some polls")  # noqa: B023
            for consumed in (1000, 1001):
                with member(place.servers, group, place.topic, protocol) as one:
                    at = KafkaTopicPartition(place.topic, 0, consumed)
                    one.commit(offsets=[at], asynchronous=False)
                    with joining(place.servers, group, place.topic, protocol) as other:
                        wait_until(lambda: _share(one, other), SECONDS, "both to have a partition", interval=0)
                        assert held(place.servers, group)[place.t0] == (consumed, "")
                assert held(place.servers, group)[place.t0] == (consumed, "")
        finally:
            stop.set()
            mapper.join()
        assert held(place.servers, group)[place.t0] == (1001, "")
        assert any(report.committed for report in reports)


def test_the_window_that_remains(place: Place) -> None:
    """A member that joins after the look and asks for unstable offsets begins as if it had joined before the commit."""
    group = unique("unstable")
    produce(place.servers, place.topic, [b"%d" % n for n in range(9)], 0)
    committer = place.claimed()
    assert committer.commit([place.seen(group, 2)], FIRST).committed == [group]
    await_held(place.servers, group, {place.t0: (2, "k2k_1.1")})
    with ExitStack() as stack:
        first: list[int] = []

        def join_and_read() -> None:
            settings = {"isolation.level": "read_uncommitted"}
            joined = stack.enter_context(member(place.servers, group, place.topic, "classic", settings))
            record = wait_until(lambda: joined.poll(0.5), SECONDS, "a record")
            assert record is not None
            first.append(cast("int", record.offset()))

        place.groups.after_look = join_and_read
        assert committer.commit([place.seen(group, 6)], SECOND).committed == [group]
        # The record at 2 itself may have come while the assignment was waited for.
        assert first[0] in (2, 3), "the old position, not the pending one"
        await_held(place.servers, group, {place.t0: (6, "k2k_2.1")})
        # The next poll sees it.
        assert committer.commit([place.seen(group, 7)], Version(2, 2)).active == [group]


def test_what_others_committed_since_the_decision_stays(place: Place) -> None:
    """The mapper was frozen, say, while an application moved to the target, consumed there and stopped."""
    fresh, rewound, deleted, other = (unique(name) for name in ("fresh", "rewound", "deleted", "other"))
    committer = place.claimed()
    assert len(committer.commit([place.seen(group, 5) for group in (rewound, deleted)], FIRST).committed) == 2
    for group in (rewound, deleted):
        await_held(place.servers, group, {place.t0: (5, "k2k_1.1")})
    decisions = [place.seen(group, 8) for group in (fresh, rewound, deleted, other)]
    commit(place.servers, fresh, {place.t0: 3})
    commit(place.servers, rewound, {place.t0: 1})
    delete_group(place.servers, deleted)
    report = committer.commit(decisions, SECOND)
    assert report.committed == [other]
    assert set(report.failed) == {fresh, rewound, deleted}
    assert f"what it holds in {place.t0} on the target cluster" in report.failed[rewound]
    await_held(place.servers, other, {place.t0: (8, "k2k_2.1")})
    assert held(place.servers, fresh) == {place.t0: (3, "")}
    assert held(place.servers, rewound) == {place.t0: (1, "")}
    assert held(place.servers, deleted) == {}


def test_what_others_have_pending_since_the_decision_stays(place: Place) -> None:
    """An application has sent its offsets in a transaction and left the group; it ends the transaction later.

    The broker goes by the order in which offsets were sent, so what is sent now would win.
    """
    group, other = unique("g"), unique("other")
    committer = place.claimed()
    assert committer.commit([place.seen(group, 5)], FIRST).committed == [group]
    await_held(place.servers, group, {place.t0: (5, "k2k_1.1")})
    decisions = [place.seen(name, 8) for name in (group, other)]
    pending = open_offset_transaction(place.servers, group, {place.t0: 30})
    report = committer.commit(decisions, SECOND)
    pending.commit_transaction(SECONDS)
    await_held(place.servers, group, {place.t0: (30, "")})
    assert report.committed == [other]
    assert "are pending in an open transaction" in report.failed[group]


def test_what_others_have_pending_where_the_group_has_no_commit_yet_stays(place: Place) -> None:
    """The first offsets of an application: brokers tell of them only where a partition is asked for by name."""
    group, other = unique("g"), unique("other")
    committer = place.claimed()
    pending = open_offset_transaction(place.servers, group, {place.t0: 30})
    report = committer.commit([place.decision(name, 8) for name in (group, other)], FIRST)
    pending.commit_transaction(SECONDS)
    await_held(place.servers, group, {place.t0: (30, "")})
    assert report.committed == [other]
    assert "are pending in an open transaction" in report.failed[group]
    assert report.pending == {group: place.t0}


def test_what_is_sent_right_after_the_look_for_pending_offsets(place: Place) -> None:
    """What remains: the first transaction of an application that is no member, in the moment before the own sending.

    Its next one counts again, and the mapper leaves the group alone from then on.
    """
    group = unique("g")
    opened = []
    place.groups.after_pending = lambda: opened.append(open_offset_transaction(place.servers, group, {place.t0: 30}))
    committer = place.claimed()
    assert committer.commit([place.seen(group, 8)], FIRST).committed == [group]
    opened[0].commit_transaction(SECONDS)
    await_held(place.servers, group, {place.t0: (8, "k2k_1.1")})
    later = open_offset_transaction(place.servers, group, {place.t0: 40})
    later.commit_transaction(SECONDS)
    await_held(place.servers, group, {place.t0: (40, "")})


def test_what_others_commit_after_the_look_stays_too(place: Place) -> None:
    """The broker goes by the order of the log: what was sent is older than what was committed after it."""
    group = unique("g")
    committer = place.claimed()
    place.groups.after_look = lambda: commit(place.servers, group, {place.t0: 3}, "of the application")
    assert committer.commit([place.seen(group, 8)], FIRST).failed == {}
    wait_until(lambda: held(place.servers, group), SECONDS, "the commit")
    assert held(place.servers, group) == {place.t0: (3, "of the application")}


def test_a_superseded_committer_commits_nothing(place: Place) -> None:
    group = unique("g")
    first = place.claimed()
    assert first.commit([place.decision(group, 50)], FIRST).committed == [group]
    second = place.claimed()
    assert second.commit([place.decision(group, 40)], SECOND).committed == [group]
    with pytest.raises(Superseded):
        first.commit([place.decision(group, 60), *(place.decision(unique("g"), 1) for _ in range(20))], Version(1, 2))
    await_held(place.servers, group, {place.t0: (40, "k2k_2.1")})
    assert second.commit([place.decision(group, 41)], Version(2, 2)).committed == [group]
    with pytest.raises(Superseded):
        place.committer().claim()


def test_a_committer_that_is_superseded_in_the_middle_of_a_transaction(place: Place) -> None:
    group = unique("g")
    first, second = place.claimed(), place.committer()

    def take_over() -> None:
        place.newest = second
        second.claim()
        assert second.commit([place.decision(group, 40)], SECOND).committed == [group]

    place.groups.after_look = take_over
    with pytest.raises(Superseded):
        first.commit([place.decision(group, 50)], FIRST)
    await_held(place.servers, group, {place.t0: (40, "k2k_2.1")})


@pytest.fixture
def certain_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a slow commit a mapper claims its id anew, and would not notice that another one has."""
    monkeypatch.setattr(shard, "_AMBIGUOUS_AFTER_SECONDS", 60)


@pytest.mark.usefixtures("certain_commits")
def test_a_zombie_without_producers_does_not_fence_its_successor(place: Place) -> None:
    """It lost them, or its last commit was slow; and it never heard of its successor."""
    group = unique("g")
    first, second = place.claimed(), place.claimed()
    assert second.commit([place.decision(group, 40)], SECOND).committed == [group]
    for each in first._shards:
        each.close()
    with pytest.raises(Superseded):
        first.commit([place.decision(group, 50)], FIRST)
    assert second.commit([place.decision(group, 41)], Version(2, 2)).committed == [group]
    await_held(place.servers, group, {place.t0: (41, "k2k_2.2")})


@pytest.mark.usefixtures("certain_commits")
def test_a_zombie_that_claims_again_finds_out_before_it_commits(place: Place) -> None:
    """Its successor comes after its look at the claims: its own claim of the id comes after the other's."""
    group = unique("g")
    first, second = place.claimed(), place.committer()
    for each in first._shards:
        each.close()

    def take_over() -> None:
        place.newest = second
        second.claim()
        assert second.commit([place.decision(group, 40)], SECOND).committed == [group]

    place.after_look_at_claims = take_over
    with pytest.raises(Superseded):
        first.commit([place.decision(group, 50)], FIRST)
    await_held(place.servers, group, {place.t0: (40, "k2k_2.1")})
    # It has fenced its successor, which is still the newest: what that fails to commit now, it commits with its next
    # poll.
    report = second.commit([place.decision(group, 41)], Version(2, 2))
    assert set(report.failed) == {group}
    assert second.commit([place.decision(group, 41)], Version(2, 3)).committed == [group]
    await_held(place.servers, group, {place.t0: (41, "k2k_2.3")})


def test_one_refused_group_does_not_stop_the_others(place: Place) -> None:
    names = [unique("g") for _ in range(3 * SHARDS)]
    gone = GroupDecision(unique("gone"), {TopicPartition(unique("no-such-topic"), 0): 1}, [])
    # The client retries until its deadline, because the broker might learn of the topic soon.
    report = place.claimed(timeout=20).commit([gone, *(place.decision(name, 1) for name in names)], FIRST)
    assert sorted(report.committed) == sorted(names)
    assert list(report.failed) == [gone.group]
    assert "UNKNOWN_TOPIC_OR_PART" in report.failed[gone.group]


def test_refused_groups_come_last_and_have_a_share_of_the_time(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them costs what the client asks for: in the same order each time they would starve the others."""
    monkeypatch.setattr(shard, "SEND_SECONDS", 2.0)
    missing = TopicPartition(unique("no-such-topic"), 0)
    # All in one shard, so that they wait for each other.
    of_shard = [name for name in (unique("g") for _ in range(80)) if zlib.crc32(name.encode()) % SHARDS == 0][:12]
    refused, good = of_shard[:6], of_shard[6:]
    committer = place.claimed(timeout=10)
    decisions = [*(GroupDecision(group, {missing: 1}, []) for group in refused), *(place.decision(g, 1) for g in good)]
    first = committer.commit(decisions, FIRST)
    assert sorted(first.committed) == sorted(good)

    sent: list[str] = []
    real = shard.Shard._send

    def noting(self: shard.Shard, producer: Any, group: str, requests: Any) -> str | None:
        sent.append(group)
        return real(self, producer, group, requests)

    monkeypatch.setattr(shard.Shard, "_send", noting)
    began = time.monotonic()
    again = [*(GroupDecision(group, {missing: 1}, []) for group in refused), *(place.decision(g, 2) for g in good)]
    second = committer.commit(again, Version(1, 2))
    assert time.monotonic() - began < 40, "a share of the time, not all that the client asks for each of them"
    assert sorted(second.committed) == sorted(good)
    assert sent[: len(good)] == good, "once each, and before all that were refused"
    assert set(second.failed) == set(refused)
    tried = sent[len(good) :]
    assert 0 < len(tried) < len(refused)
    committer.commit(again, Version(1, 3))
    assert sent[len(good) + len(tried) + len(good)] not in tried, "who has waited longest comes first"


@pytest.mark.slow
def test_many_stuck_groups_take_a_share_of_a_poll_and_come_in_turn(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is tried for a group may take as long as the client asks; the mapper has other groups to move."""
    monkeypatch.setattr(shard, "SEND_SECONDS", 0.5)
    monkeypatch.setattr(shard, "RELEASE_SECONDS", 1.0)
    missing = TopicPartition(unique("no-such-topic"), 0)
    in_one_shard = [name for name in (unique("g") for _ in range(80)) if zlib.crc32(name.encode()) % SHARDS == 0][:12]
    committer = place.claimed(timeout=4)
    left, polls = list(in_one_shard), 0
    while left:
        began = time.monotonic()
        tried = committer.release(dict.fromkeys(left, missing))
        assert time.monotonic() - began < 10
        assert tried == set(left[: len(tried)]), "in their order"
        assert tried
        left = left[len(tried) :]
        polls += 1
    assert polls > 1
    for name in ("SEND_SECONDS", "RELEASE_SECONDS"):  # of a busy broker too
        monkeypatch.setattr(shard, name, SECONDS)
    committer = place.claimed()
    at_once = committer.release(dict.fromkeys(in_one_shard, place.t0))
    assert at_once == set(in_one_shard), "where nothing is refused, one transaction is enough for all"
    assert len(committer.commit([place.decision(group, 1) for group in in_one_shard], FIRST).committed) == 12


@pytest.mark.slow
def test_a_group_with_a_thousand_partitions_and_long_names(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than the broker writes at once."""
    monkeypatch.setattr(shard, "SEND_SECONDS", SECONDS)
    topic = create_topic(place.servers, unique("wide" * 50), 1200, {"segment.index.bytes": "4096"})
    group = unique("g" * 200)
    commits = {TopicPartition(topic, p): p for p in range(1200)}
    assert place.claimed().commit([GroupDecision(group, commits, [])], FIRST).committed == [group]
    await_held(place.servers, group, {tp: (at, "k2k_1.1") for tp, at in commits.items()})
    delete_topic(place.servers, topic)


@pytest.mark.own_clusters
@pytest.mark.slow
def test_a_target_that_does_not_answer(clusters: KafkaSandbox, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    group = unique("g")
    # With a long deadline, because the process that reads groups starts in the middle of it.
    assert place.claimed().commit([place.decision(group, 1)], FIRST).committed == [group]
    # The client waits for an answer as long as a transaction may last.
    monkeypatch.setattr(committer_module, "TRANSACTION_TIMEOUT_MS", 4000)
    committer = place.claimed(timeout=4)
    clusters.target.pause()
    report = committer.commit([place.decision(group, 2)], SECOND)
    assert (report.committed, list(report.failed)) == ([], [group])
    clusters.target.resume()
    wait_until(
        lambda: committer.commit([place.decision(group, 3)], Version(2, 2)).committed, PATIENCE, "the target to answer"
    )
    await_held(place.servers, group, {place.t0: (3, "k2k_2.2")})
