"""How long a slot has been silent, by what was read of the assignment topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from k2k_assets.control import assignment_tail as module
from k2k_assets.control.assignment_records import PARTITION, Claim, heartbeat_key, time_value
from k2k_assets.control.assignment_tail import AssignmentTail, AssignmentTopicLost
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets_tests.support.fake_transport import FakeCluster
from k2k_assets_tests.support.pipelines import make_pipeline

GROUP, OWNER = "k2k.g", (7, 0)
CLAIM = Claim("s", 0, "id", "claim", *OWNER, "orders")
CLAIMED = (CLAIM.key_bytes(GROUP), CLAIM.value_bytes(1))
HEARTBEAT, RELEASE_ALL = ((heartbeat_key(GROUP, *OWNER), value) for value in (time_value(1), None))

Hear = Callable[..., float]


class FakeLog:
    """Stands in for the reader of the assignment topic."""

    def __init__(self, _: Any, starts: Mapping[TopicPartition, int], **__: Any) -> None:
        self.reached = dict(starts)
        self.batches: list[list[Any]] = []
        self.doubts: list[Any] = []

    def poll(self, _: float) -> list[Any]:
        return self.batches.pop() if self.batches else []

    def read_until(self, *_: Any) -> list[list[Any]]:
        return []

    def doubt_if_behind(self, ends: Any) -> None:
        self.doubts.append(ends)


class TailFixture:
    """A tail whose clock, log and cluster are played."""

    def __init__(self, directory: Path) -> None:
        kafka = {"common": {"bootstrap.servers": "a:1"}, "consumer": {"group.id": GROUP}}
        pipeline = make_pipeline(directory, "a:1", "b:1", ["orders"], source={"kafka": kafka})
        self.topic = pipeline.coordination.assignment.topic
        self.at = TopicPartition(self.topic, PARTITION)
        self.now = 0.0
        self.cluster = FakeCluster({self.topic: ("a-id", 1)}, ends={self.at: 0})
        self._pipeline = pipeline

    def begin(self) -> AssignmentTail:
        return AssignmentTail(self._pipeline, self.cluster, lambda: self.now)  # type: ignore[arg-type]

    def end_at(self, offset: int) -> None:
        """The log of the topic ends there from now on."""
        self.cluster._offsets["latest"] = {self.at: offset}


@pytest.fixture
def fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TailFixture:
    monkeypatch.setattr(module, "LogReader", FakeLog)
    return TailFixture(tmp_path)


@pytest.fixture
def hear(fixture: TailFixture) -> Hear:
    """Reads records at a time, in one batch; returns how long the owner has been silent then."""
    offset = 0
    tail = fixture.begin()

    def hear(at: float, *records: tuple[bytes, bytes | None]) -> float:
        nonlocal offset
        fixture.now = at
        batch = []
        for key, value in records:
            batch.append(SimpleNamespace(offset=lambda at=offset: at, key=lambda k=key: k, value=lambda v=value: v))
            offset += 1
        tail._reader.batches.append(batch)  # type: ignore[attr-defined]
        tail.refresh()
        return tail.silence(OWNER)

    return hear


def test_silence_counts_from_when_the_last_sign_was_read(hear: Hear) -> None:
    assert hear(10, CLAIMED) == 0
    assert hear(15) == 5
    assert hear(16, HEARTBEAT) == 0
    assert hear(20, RELEASE_ALL) == 4


def test_one_that_said_farewell_and_left_a_claim_is_silent_all_the_same(hear: Hear) -> None:
    """Two attempts of one slot: one ends, and the other dies before its next beat. Both are read later, at once."""
    assert hear(10, CLAIMED, RELEASE_ALL) == 0
    assert hear(70) == 60, "or its claim would hold the partition for ever"
    assert hear(80, HEARTBEAT) == 0, "it lives"


def test_a_topic_that_is_silent_for_long_is_asked_where_it_ends(fixture: TailFixture) -> None:
    """A client may stand still without a word: its slot would never hear that it is to stop."""
    tail = fixture.begin()
    log: Any = tail._reader
    fixture.end_at(8)
    fixture.now = 29.0
    tail.refresh()
    assert tail._end_probe.asked is None
    fixture.now = 31.0
    tail.refresh()
    wait_until(lambda: tail._end_probe.asked is not None and tail._end_probe.asked.done(), 10, "the answer")
    assert not log.doubts
    tail.refresh()
    assert log.doubts == [{fixture.at: 8}]
    tail.refresh()
    assert len(log.doubts) == 1


@pytest.mark.parametrize("case", ["deleted", "created anew", "cut off"])
def test_a_topic_that_is_another_one_is_told(fixture: TailFixture, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generations are its offsets; what it said before, another one does not say."""
    monkeypatch.setattr(module, "_SETTLE_SECONDS", 0.2)
    tail = fixture.begin()
    tail._reader.reached[fixture.at] = 5  # type: ignore[index]
    fixture.end_at(5)
    tail.catch_up()
    if case == "deleted":
        del fixture.cluster.topics[fixture.topic]
    elif case == "created anew":
        fixture.cluster.topics[fixture.topic] = ("b-id", 1)
    else:
        fixture.end_at(4)
    with pytest.raises(AssignmentTopicLost, match="was deleted, created anew or cut off"):
        tail.catch_up()
    fixture.now = 31.0
    tail.refresh()
    wait_until(lambda: tail._end_probe.asked is not None and tail._end_probe.asked.done(), 10, "the answer")
    with pytest.raises(AssignmentTopicLost):
        tail.refresh()


def test_a_broker_that_has_just_come_back_may_not_know_the_topic_yet(
    fixture: TailFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything, unknown = fixture.cluster.describe, 0

    def describe(names: Any) -> Any:
        nonlocal unknown
        unknown += 1
        return everything(names) if unknown > 2 else {}

    monkeypatch.setattr(fixture.cluster, "describe", describe)
    tail = fixture.begin()
    unknown = 0
    tail.catch_up()


def test_what_is_read_while_the_topic_is_asked_for_makes_it_no_other(fixture: TailFixture) -> None:
    """The question is asked in a thread, and its answer may be long in coming."""
    tail = fixture.begin()
    everything = fixture.cluster.describe

    def describe(names: Any) -> Any:
        tail._reader.reached[fixture.at] = 9  # type: ignore[index]
        return everything(names)

    fixture.cluster.describe = describe  # type: ignore[method-assign]
    fixture.end_at(5)
    tail._end_of_the_same()


def test_a_question_without_an_answer_is_asked_again(fixture: TailFixture) -> None:
    tail = fixture.begin()
    tail._end_probe.asked = Future()
    tail._end_probe.asked.set_exception(Refused("the client was let go of"))
    tail.refresh()
    assert tail._end_probe.asked is None
