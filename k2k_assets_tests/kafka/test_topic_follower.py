"""Following a topic: records, lost records, and a topic that was created again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import ClusterUnreachable, Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka import topic_follower as module
from k2k_assets.kafka.answers import NoLeader
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.topic_follower import Deleted, Replaced, TopicFollower, TopicLost, await_topic
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import (
    OpenTransaction,
    add_partitions,
    create_topic,
    delete_records,
    delete_topic,
    produce,
    unique,
)
from k2k_assets_tests.support.memory.clock import FakeClock
from k2k_assets_tests.support.memory.fake_cluster import FakeCluster
from k2k_assets_tests.support.memory.fake_log import FakeLog, play

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)


class Played:
    """A follower whose clock, log and cluster are played; it has read up to offset 5 of each partition."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._logs = play(monkeypatch)
        self.clock = FakeClock()
        self.cluster = FakeCluster({"t": ("an-id", 2)}, starts={}, ends={P: 5, Q: 5}, stable={P: 5, Q: 5})

    def follow(self, starts: Mapping[int, int] | None = None, **named: Any) -> TopicFollower:
        named = {"committed_only": True, "clock": self.clock.monotonic, **named}
        topic = self.cluster.describe(["t"])["t"]
        return TopicFollower(topic, self.cluster, {}, starts={0: 5, 1: 5} if starts is None else starts, **named)  # type: ignore[arg-type]

    @property
    def log(self) -> FakeLog:
        return self._logs[-1]

    def end_at(self, offset: int, which: str = "latest") -> None:
        self.cluster._offsets[which] = {P: offset, Q: 5}

    def begin_at(self, offset: int) -> None:
        self.cluster._offsets["earliest"] = {P: offset}


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    monkeypatch.setattr(module, "_SETTLE_SECONDS", 0.2)
    return Played(monkeypatch)


def answered(follower: TopicFollower) -> None:
    """Waits for what is asked in a thread."""
    probe = follower._probe
    wait_until(lambda: probe.asked is not None and probe.asked.done(), 120, "the answer")


def offsets(batch: list[Any]) -> list[tuple[int, int]]:
    return [(message.partition(), message.offset()) for message in batch]


def test_it_begins_where_it_is_told_and_elsewhere_at_the_log_start(played: Played) -> None:
    played.begin_at(3)
    follower = played.follow({1: 4})
    assert follower.reached == {P: 3, Q: 4}
    assert follower.take_lost() == [(0, 0, 3)]
    assert follower.take_lost() == []
    assert played.follow(only=[1]).reached == {Q: 5}


def test_it_reads_up_to_the_ends_and_no_further(played: Played) -> None:
    follower = played.follow()
    played.log.write((b"a", None), (b"b", None))
    played.log.write((b"c", None))
    played.end_at(7)
    assert [offsets(batch) for batch in follower.catch_up(1.0)] == [[(0, 5), (0, 6)]]
    assert offsets(follower.refresh()) == [(0, 7)]
    assert follower.refresh() == []


@pytest.mark.parametrize(
    ("committed_only", "why"), [(True, "Either the target does not answer, or a transaction is open"), (False, "T")]
)
def test_an_end_that_is_not_reached_is_told_and_another_client_goes_on(
    played: Played, committed_only: bool, why: str
) -> None:
    played.cluster.role = "target"  # type: ignore[attr-defined]
    follower = played.follow(committed_only=committed_only)
    played.end_at(9)
    with pytest.raises(ClusterUnreachable, match=rf"nothing came for 0 s \(t-0 at 5 of 9\)\. {why}"):
        list(follower.catch_up(0.0))
    assert played.log.doubts == [{P: 9}]


def test_what_is_done_with_a_batch_takes_none_of_the_patience(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever folds many records may be busy for longer than it would wait."""
    monkeypatch.setattr("k2k_assets.core.deadline.time", played.clock)
    follower = played.follow()
    played.log.write((b"a", None))
    played.log.write((b"b", None))
    played.end_at(7)
    read = []
    for batch in follower.catch_up(1.0):
        read += offsets(batch)
        played.clock.advance(60)
    assert read == [(0, 5), (0, 6)]


@pytest.mark.parametrize("case", ["deleted", "created anew", "cut off"])
def test_a_topic_that_is_not_as_it_was_is_told(played: Played, case: str) -> None:
    follower = played.follow()
    follower.ends()
    kind: type[TopicLost] = Replaced
    if case == "deleted":
        del played.cluster.topics["t"]
        kind = Deleted
    elif case == "created anew":
        played.cluster.topics["t"] = ("another-id", 2)
    else:
        played.end_at(4)
    with pytest.raises(kind, match=f"was {'deleted and ' if case == 'created anew' else ''}{case}"):
        follower.ends()
    played.clock.advance(31)
    follower.refresh()
    answered(follower)
    with pytest.raises(kind):
        follower.refresh()
    assert follower.refresh() == [], "once for each time that it was asked"


def test_one_that_ends_before_where_it_is_to_go_on_is_refused_at_once(played: Played) -> None:
    with pytest.raises(Replaced, match=r"cut off: read were t-1 up to 6, ends at 5\."):
        played.follow({0: 5, 1: 6})


@pytest.mark.parametrize("what", ["the topic", "its end"])
def test_a_broker_that_has_just_come_back_may_not_know_it_yet(
    played: Played, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    follower = played.follow()
    everything: Any = played.cluster.describe if what == "the topic" else played.cluster.offsets
    asked = 0

    def unknown(*arguments: Any) -> Any:
        nonlocal asked
        asked += 1
        return everything(*arguments) if asked > 1 else {}

    monkeypatch.setattr(played.cluster, "describe" if what == "the topic" else "offsets", unknown)
    assert follower.ends() == {P: 5, Q: 5}
    asked = 0
    assert await_topic(played.cluster, "t").topic_id == "an-id"  # type: ignore[arg-type]


def test_a_topic_that_never_comes_is_told(played: Played) -> None:
    with pytest.raises(Deleted, match=r"^the topic gone does not exist on the "):
        await_topic(played.cluster, "gone")  # type: ignore[arg-type]


def test_what_is_read_while_it_is_asked_makes_it_no_other_topic(played: Played) -> None:
    """The question is asked in a thread, and its answer may be long in coming."""
    follower = played.follow()
    everything = played.cluster.describe

    def describe(names: Any) -> Any:
        played.log.reached[P] = 9
        return everything(names)

    played.cluster.describe = describe  # type: ignore[method-assign]
    follower.ends()
    assert follower.reached[P] == 9


def test_records_deleted_before_they_were_read_are_told_before_others_are_read(played: Played) -> None:
    follower = played.follow()
    played.begin_at(8)
    played.end_at(9)
    follower.ends()
    assert follower.reached[P] == 5, "where it begins is not asked while all goes well"
    played.log.fails = ClusterUnreachable("out of range")
    with pytest.raises(ClusterUnreachable):
        list(follower.catch_up(1.0))
    follower.ends()
    assert follower.take_lost() == [(0, 5, 8)]
    assert follower.reached == {P: 8, Q: 5}
    assert follower.log_starts() == {0: 8, 1: 0}


def test_who_does_not_wait_is_told_of_lost_records_too(played: Played) -> None:
    follower = played.follow()
    played.begin_at(8)
    played.end_at(9)
    played.end_at(8, "stable")
    played.log.fails = ClusterUnreachable("out of range")
    with pytest.raises(ClusterUnreachable):
        follower.refresh()
    follower.refresh()
    answered(follower)
    follower.refresh()
    assert follower.take_lost() == [(0, 5, 8)]
    assert follower.reached == {P: 8, Q: 5}


def test_an_answer_to_a_question_from_before_an_error_leaves_the_log_start_in_doubt(played: Played) -> None:
    follower = played.follow()
    before = follower._look_aside()
    played.begin_at(8)
    played.end_at(9)
    played.log.fails = ClusterUnreachable("out of range")
    with pytest.raises(ClusterUnreachable):
        follower.refresh()
    follower._adopt(before)
    follower.ends()
    assert follower.take_lost() == [(0, 5, 8)]


def test_new_partitions_are_read_from_their_start(played: Played) -> None:
    follower, alone = played.follow(), played.follow(only=[0, 1])
    new = TopicPartition("t", 2)
    played.cluster.topics["t"] = ("an-id", 3)
    played.cluster._offsets["latest"] = {P: 5, Q: 5, new: 2}
    assert follower.ends() == {P: 5, Q: 5, new: 2}
    assert follower.reached == {P: 5, Q: 5, new: 0}
    assert follower.topic.partitions == 3
    assert alone.ends() == {P: 5, Q: 5}


@pytest.mark.parametrize("committed_only", [True, False])
def test_one_that_is_silent_for_long_is_asked_where_it_ends(played: Played, committed_only: bool) -> None:
    """A client may stand still without a word. What is not committed it cannot read if it is to leave that out."""
    follower = played.follow(committed_only=committed_only)
    played.clock.advance(29)
    played.log.write((b"a", None))
    follower.refresh()
    played.end_at(8)
    played.end_at(7, "stable")
    played.clock.advance(29)
    follower.refresh()
    assert follower._probe.asked is None
    played.clock.advance(2)
    follower.refresh()
    answered(follower)
    assert played.log.doubts == []
    for _ in range(2):
        follower.refresh()
        assert played.log.doubts == [{P: 7 if committed_only else 8}]


def test_a_question_without_an_answer_is_asked_again(played: Played) -> None:
    follower = played.follow()
    played.clock.advance(20)
    follower._probe.asked = Future()
    follower._probe.asked.set_exception(Refused("the client was let go of"))
    follower.refresh()
    assert follower._probe.asked is None
    assert follower.silence == 20, "nothing was heard of the cluster"
    played.log.write((b"a", None))
    follower.refresh()
    assert follower.silence == 0


def test_a_partition_without_a_leader_is_waited_for_only_by_who_waits(played: Played) -> None:
    follower = played.follow()
    played.cluster.offline_partitions.add(Q)
    with pytest.raises(NoLeader):
        follower.ends()
    played.end_at(8, "stable")
    played.end_at(8)
    played.clock.advance(31)
    follower.refresh()
    answered(follower)
    follower.refresh()
    assert played.log.doubts == [{P: 8}]


@pytest.fixture
def followed(clusters: KafkaSandbox) -> Callable[..., TopicFollower]:
    """Follows a topic of real brokers; the cleaning up is left to the end of the process."""
    cluster = Cluster("target", {"bootstrap.servers": clusters.target_servers})

    def follow(topic: str, **named: Any) -> TopicFollower:
        named = {"committed_only": True, **named}
        return TopicFollower(
            await_topic(cluster, topic), cluster, {"bootstrap.servers": clusters.target_servers}, **named
        )

    return follow


@pytest.mark.integration
def test_on_real_brokers(clusters: KafkaSandbox, followed: Callable[..., TopicFollower]) -> None:
    """New records, new partitions and the deletion of the topic, as brokers tell them."""
    servers = clusters.target_servers
    topic = create_topic(servers, unique("followed"))
    produce(servers, topic, [b"%d" % n for n in range(3)], 0)
    follower = followed(topic)

    def values(patience: float = 10.0) -> list[bytes | None]:
        return [message.value() for batch in follower.catch_up(patience) for message in batch]

    assert values() == [b"0", b"1", b"2"]
    produce(servers, topic, [b"3"], 0)
    assert wait_until(follower.refresh, 120, "a record")[0].value() == b"3"
    add_partitions(servers, topic, 2)
    produce(servers, topic, [b"new"], 1)
    assert wait_until(values, 120, "the new partition") == [b"new"]
    delete_topic(servers, topic)
    with pytest.raises(TopicLost):
        follower.ends()
    create_topic(servers, topic)
    produce(servers, topic, [b"another"] * 9, 0)
    with pytest.raises(Replaced, match="created anew"):
        follower.ends()
    follower.close()


@pytest.mark.integration
def test_an_open_transaction_hides_what_is_committed_behind_it(
    clusters: KafkaSandbox, followed: Callable[..., TopicFollower]
) -> None:
    servers = clusters.target_servers
    topic = create_topic(servers, unique("held"))
    committed, everything = followed(topic), followed(topic, committed_only=False)
    hanging = OpenTransaction(servers, topic, [b"open"], 0)
    produce(servers, topic, [b"behind"], 0)
    with pytest.raises(ClusterUnreachable, match="a transaction is open there"):
        list(committed.catch_up(0.5))
    assert [m.value() for batch in everything.catch_up(10.0) for m in batch] == [b"open", b"behind"]
    hanging.abort()
    assert [m.value() for batch in committed.catch_up(10.0) for m in batch] == [b"behind"]
    for follower in (committed, everything):
        follower.close()


@pytest.mark.integration
def test_records_that_are_deleted_before_they_are_read_on_real_brokers(
    clusters: KafkaSandbox, followed: Callable[..., TopicFollower]
) -> None:
    servers = clusters.target_servers
    topic = create_topic(servers, unique("deleted"))
    follower = followed(topic)
    assert list(follower.catch_up(10.0)) == []
    produce(servers, topic, [b"%d" % n for n in range(6)], 0)
    delete_records(servers, topic, 0, 4)
    values: list[bytes | None] = []

    def is_read() -> bool:
        try:
            values.extend(message.value() for batch in follower.catch_up(10.0) for message in batch)
        except ClusterUnreachable:
            return False
        return bool(values)

    wait_until(is_read, 120, "what is left")
    lost = follower.take_lost()
    assert values[-2:] == [b"4", b"5"]
    assert lost in ([(0, 0, 4)], []), "nothing, if they came before they were deleted"
    assert len(values) == 6 - sum(end - start for _, start, end in lost)
    follower.close()
