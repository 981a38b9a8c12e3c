"""How long a slot has been silent, by what was read of the assignment topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from k2k_assets.control import assignment_tail as module
from k2k_assets.control.assignment_records import PARTITION, Claim, beat_key, time_value
from k2k_assets.control.assignment_tail import AssignmentTail, AssignmentTopicLost
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets_tests.support.fake_transport import FakeCluster
from k2k_assets_tests.support.pipelines import make_pipeline

GROUP, OWNER = "k2k.g", (7, 0)
CLAIM = Claim("s", 0, "id", "claim", *OWNER, "orders")
CLAIMED = (CLAIM.key_bytes(GROUP), CLAIM.value_bytes(1))
BEAT, FAREWELL = ((beat_key(GROUP, *OWNER), value) for value in (time_value(1), None))

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


class Stage:
    """A tail whose clock, log and cluster are played."""

    def __init__(self, directory: Path) -> None:
        kafka = {"common": {"bootstrap.servers": "a:1"}, "consumer": {"group.id": GROUP}}
        pipeline = make_pipeline(directory, "a:1", "b:1", ["orders"], source={"kafka": kafka})
        self.topic = pipeline.coordination.assignment.topic
        self.at = TopicPartition(self.topic, PARTITION)
        self.now = 0.0
        self.cluster = FakeCluster({self.topic: ("a-id", 1)}, ends={self.at: 0})
        self.begin = lambda: AssignmentTail(pipeline, self.cluster, lambda: self.now)  # type: ignore[arg-type]

    def end_at(self, offset: int) -> None:
        """The log of the topic ends there from now on."""
        self.cluster._offsets["latest"] = {self.at: offset}


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr(module, "LogReader", FakeLog)
    return Stage(tmp_path)


@pytest.fixture
def hear(stage: Stage) -> Hear:
    """Reads records at a time, in one batch; returns how long the owner has been silent then."""
    offset = 0
    tail = stage.begin()

    def hear(at: float, *records: tuple[bytes, bytes | None]) -> float:
        nonlocal offset
        stage.now = at
        batch = []
        for key, value in records:
            batch.append(SimpleNamespace(offset=lambda at=offset: at, key=lambda k=key: k, value=lambda v=value: v))
            offset += 1
        tail._reader.batches.append(batch)  # type: ignore[attr-defined]
        tail.look()
        return tail.silence(OWNER)

    return hear


def test_silence_counts_from_when_the_last_sign_was_read(hear: Hear) -> None:
    assert hear(10, CLAIMED) == 0
    assert hear(15) == 5
    assert hear(16, BEAT) == 0
    assert hear(20, FAREWELL) == 4


def test_one_that_said_farewell_and_left_a_claim_is_silent_all_the_same(hear: Hear) -> None:
    """Two attempts of one slot: one ends, and the other dies before its next beat. Both are read later, at once."""
    assert hear(10, CLAIMED, FAREWELL) == 0
    assert hear(70) == 60, "or its claim would hold the partition for ever"
    assert hear(80, BEAT) == 0, "it lives"


def test_a_topic_that_is_silent_for_long_is_asked_where_it_ends(stage: Stage) -> None:
    """A client may stand still without a word: its slot would never hear that it is to stop."""
    tail = stage.begin()
    log: Any = tail._reader
    stage.end_at(8)
    stage.now = 29.0
    tail.look()
    assert tail._silence.asked is None
    stage.now = 31.0
    tail.look()
    wait_until(lambda: tail._silence.asked is not None and tail._silence.asked.done(), 10, "the answer")
    assert not log.doubts
    tail.look()
    assert log.doubts == [{stage.at: 8}]
    tail.look()
    assert len(log.doubts) == 1


@pytest.mark.parametrize("case", ["deleted", "created anew", "cut off"])
def test_a_topic_that_is_another_one_is_told(stage: Stage, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generations are its offsets; what it said before, another one does not say."""
    monkeypatch.setattr(module, "_SETTLE_SECONDS", 0.2)
    tail = stage.begin()
    tail._reader.reached[stage.at] = 5  # type: ignore[index]
    stage.end_at(5)
    tail.catch_up()
    if case == "deleted":
        del stage.cluster.topics[stage.topic]
    elif case == "created anew":
        stage.cluster.topics[stage.topic] = ("b-id", 1)
    else:
        stage.end_at(4)
    with pytest.raises(AssignmentTopicLost, match="was deleted, created anew or cut off"):
        tail.catch_up()
    stage.now = 31.0
    tail.look()
    wait_until(lambda: tail._silence.asked is not None and tail._silence.asked.done(), 10, "the answer")
    with pytest.raises(AssignmentTopicLost):
        tail.look()


def test_a_broker_that_has_just_come_back_may_not_know_the_topic_yet(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything, unknown = stage.cluster.describe, 0

    def describe(names: Any) -> Any:
        nonlocal unknown
        unknown += 1
        return everything(names) if unknown > 2 else {}

    monkeypatch.setattr(stage.cluster, "describe", describe)
    tail = stage.begin()
    unknown = 0
    tail.catch_up()


def test_what_is_read_while_the_topic_is_asked_for_makes_it_no_other(stage: Stage) -> None:
    """The question is asked in a thread, and its answer may be long in coming."""
    tail = stage.begin()
    everything = stage.cluster.describe

    def describe(names: Any) -> Any:
        tail._reader.reached[stage.at] = 9  # type: ignore[index]
        return everything(names)

    stage.cluster.describe = describe  # type: ignore[method-assign]
    stage.end_at(5)
    tail._end_of_the_same()


def test_a_question_without_an_answer_is_asked_again(stage: Stage) -> None:
    tail = stage.begin()
    tail._silence.asked = Future()
    tail._silence.asked.set_exception(Refused("the client was let go of"))
    tail.look()
    assert tail._silence.asked is None
