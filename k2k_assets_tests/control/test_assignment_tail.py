"""Following the assignment topic: when it is another topic, and records that cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from k2k_assets.control.assignment_records import PARTITION, Claim
from k2k_assets.control.assignment_tail import AssignmentTail, AssignmentTopicLost
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import ClusterUnreachable, Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka import topic_follower
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.fake_cluster import FakeCluster
from k2k_assets_tests.support.memory.fake_log import FakeLog, play

GROUP = "k2k.g"
CLAIM = Claim("s", 0, "id", "claim", 7, 0, "orders")
CLAIMED = (CLAIM.key_bytes(GROUP), CLAIM.value_bytes(1))


class TailFixture:
    """A tail whose clock, log and cluster are played."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        pipeline = make_pipeline(directory, "a:1", "b:1", ["orders"], consumer={"group.id": GROUP})
        self.topic = pipeline.coordination.assignment.topic
        self.at = TopicPartition(self.topic, PARTITION)
        self.now = 0.0
        self.cluster = FakeCluster({self.topic: ("a-id", 3)}, starts={}, ends={self.at: 0})
        self._pipeline = pipeline
        self._logs = play(monkeypatch)

    def begin(self) -> AssignmentTail:
        return AssignmentTail(self._pipeline, self.cluster, lambda: self.now)  # type: ignore[arg-type]

    @property
    def log(self) -> FakeLog:
        return self._logs[-1]

    def end_at(self, offset: int) -> None:
        """The log of the topic ends there from now on."""
        self.cluster._offsets["latest"] = {self.at: offset}


@pytest.fixture
def fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TailFixture:
    monkeypatch.setattr(topic_follower, "_SETTLE_SECONDS", 0.2)
    return TailFixture(tmp_path, monkeypatch)


@pytest.fixture
def answered(fixture: TailFixture) -> Callable[[AssignmentTail], None]:
    """Lets the topic be silent until it is asked about in a thread, and waits for the answer."""

    def wait(tail: AssignmentTail) -> None:
        probe = tail._follower._probe
        fixture.now += 31.0
        tail.refresh()
        wait_until(lambda: probe.asked is not None and probe.asked.done(), 120, "the answer")

    return wait


def test_all_claims_lie_in_one_partition(fixture: TailFixture) -> None:
    tail = fixture.begin()
    fixture.log.write(CLAIMED)
    fixture.end_at(1)
    assert set(tail.catch_up().claims) == {"claim"}
    assert fixture.log.reached == {fixture.at: 1}
    assert tail.end == 1


@pytest.mark.parametrize("case", ["deleted", "created anew", "cut off"])
def test_a_topic_that_is_another_one_is_told(
    fixture: TailFixture, answered: Callable[[AssignmentTail], None], case: str
) -> None:
    """Generations are its offsets; what it said before, another one does not say."""
    tail = fixture.begin()
    fixture.log.reached[fixture.at] = 5
    fixture.end_at(5)
    tail.catch_up()
    if case == "deleted":
        del fixture.cluster.topics[fixture.topic]
    elif case == "created anew":
        fixture.cluster.topics[fixture.topic] = ("b-id", 3)
    else:
        fixture.end_at(4)
    with pytest.raises(AssignmentTopicLost, match="was deleted, created anew or cut off"):
        tail.catch_up()
    answered(tail)
    with pytest.raises(AssignmentTopicLost):
        tail.refresh()


def test_a_topic_that_never_was_is_told(fixture: TailFixture) -> None:
    fixture.cluster.topics.clear()
    with pytest.raises(AssignmentTopicLost):
        fixture.begin()


def test_claims_that_were_deleted_before_they_were_read_are_never_taken_for_none(fixture: TailFixture) -> None:
    fixture.cluster._offsets["earliest"] = {fixture.at: 3}
    fixture.end_at(3)
    tail = fixture.begin()
    tail.catch_up()  # records that were deleted before are not missing
    fixture.cluster._offsets["earliest"] = {fixture.at: 5}
    fixture.end_at(5)
    fixture.log.fails = ClusterUnreachable("out of range")
    with pytest.raises(ClusterUnreachable):
        tail.refresh()
    for _ in range(2):
        with pytest.raises(AssignmentTopicLost):
            tail.catch_up()


def test_what_lies_behind_a_record_that_cannot_be_read_is_known_all_the_same(fixture: TailFixture) -> None:
    """The reader is past it: nobody would ever read it."""
    tail = fixture.begin()
    fixture.log.write((b"not json", b""), CLAIMED)
    with pytest.raises(Refused, match="cannot be read: assignment record at offset 0"):
        tail.refresh()
    assert set(tail.state.claims) == {"claim"}


def test_an_end_that_is_not_reached_is_told(fixture: TailFixture) -> None:
    fixture.cluster.role = "target"  # type: ignore[attr-defined]
    tail = fixture.begin()
    fixture.end_at(1)
    with pytest.raises(ClusterUnreachable, match=r"was not read to its end: nothing came for 0 s .*-0 at 0 of 1"):
        tail.catch_up(0.0)
