"""A throttled source: limits of the pipeline and of topics, and who shares them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline.sections.throttle import Throttle
from k2k_assets.replication.slot.read.throttled_source import Limits, ThrottledSource
from k2k_assets.transport.interface import Position
from k2k_assets_tests.support.memory.clock import FakeClock
from k2k_assets_tests.support.memory.fake_transport import Arrival, FakeSource

A, B, C = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("b", 1)
# Bytes of key and value of the records of `FakeSource`, with offsets of five digits.
SIZE = len("k10000v10000")
FIRST = 10_000


class Harness:
    """A throttled source whose clients are in memory, each with more than can be read."""

    def __init__(self, throttle: Mapping[str, object], counts: dict[str, int], records: int = 5000) -> None:
        self.clock = FakeClock()
        limits = Throttle.model_validate(throttle)
        self._records = records
        self.opened: list[tuple[int, FakeSource]] = []
        self.source = ThrottledSource(self._open, Limits(limits, limits.sharing(counts), self.clock), clock=self.clock)
        self.read: Counter[TopicPartition] = Counter()
        self.longest = 0.0

    def _open(self, buffer: int) -> FakeSource:
        waiting = [Arrival(0.0, tp, FIRST + i) for i in range(self._records) for tp in (A, B, C)]
        self.opened.append((buffer, FakeSource(self.clock, waiting)))
        return self.opened[-1][1]

    def assign(self, *partitions: TopicPartition) -> None:
        self.source.assign({tp: Position(0) for tp in partitions})

    def run(self, seconds: float) -> Counter[TopicPartition]:
        """Polls for so long; returns the records of each partition."""
        until = self.clock.now + seconds
        while self.clock.now < until:
            before = self.clock.now
            for chunk in self.source.poll(1000, 0.1).chunks:
                self.read[chunk.source] += chunk.count
            self.longest = max(self.longest, self.clock.now - before)
            self.clock.advance(0.0001)
        return self.read


def test_the_limit_of_the_pipeline_is_kept_and_no_poll_takes_longer_than_asked() -> None:
    harness = Harness({"bytesPerSecond": 1000 * SIZE}, {"a": 1})
    harness.assign(A)
    assert harness.run(4)[A] == pytest.approx(4000, abs=200)
    assert harness.longest <= 0.1001


def test_a_topic_that_is_spent_does_not_hold_up_the_others() -> None:
    harness = Harness({"topics": [{"pattern": "a", "bytesPerSecond": 100 * SIZE}]}, {"a": 1, "b": 2})
    harness.assign(A, B, C)
    read = harness.run(3)
    assert read[A] == pytest.approx(300, abs=30)
    assert (read[B], read[C]) == (5000, 5000)


def test_what_is_told_of_leader_epochs_is_handed_on() -> None:
    harness = Harness({"bytesPerSecond": 1000 * SIZE}, {"a": 1})
    harness.assign(A)
    ((_, client),) = harness.opened
    client.epochs = {A: Position(4, 2)}
    assert {A: Position(4, 2)} in [harness.source.poll(1000, 0.1).epochs for _ in range(20)]


def test_that_a_client_has_more_under_way_is_handed_on() -> None:
    harness = Harness({"topics": [{"pattern": "a", "bytesPerSecond": 10**9}]}, {"a": 1, "b": 2})
    harness.assign(A, B, C)
    harness.clock.advance(1.0)
    for (_, client), knows in zip(harness.opened, (True, False), strict=True):
        client.knows_more = lambda knows=knows: knows  # type: ignore[misc]
    assert harness.source.poll(1000, 0.1).has_more


def test_topics_keep_both_limits() -> None:
    throttle = {"bytesPerSecond": 300 * SIZE, "topics": [{"pattern": "a", "bytesPerSecond": 100 * SIZE}]}
    harness = Harness(throttle, {"a": 1, "b": 2})
    harness.assign(A, B, C)
    read = harness.run(10)
    assert read.total() == pytest.approx(3000, abs=150)
    assert read[A] <= 1030
    assert read[A] > 500, "the other topics do not take all of it"


@pytest.mark.parametrize(("mine", "share"), [((A,), 1 / 3), ((B, C), 2 / 3)])
def test_a_slot_has_the_share_of_its_partitions(mine: tuple[TopicPartition, ...], share: float) -> None:
    harness = Harness({"bytesPerSecond": 900 * SIZE}, {"a": 1, "b": 2})
    harness.assign(*mine)
    assert harness.run(5).total() == pytest.approx(5 * 900 * share, rel=0.06)


def test_the_first_rule_that_matches_counts_and_its_topics_share_it() -> None:
    throttle = {"topics": [{"pattern": "b", "bytesPerSecond": 100 * SIZE}, {"pattern": ".*", "bytesPerSecond": 1}]}
    harness = Harness(throttle, {"a": 1, "b": 2})
    harness.assign(A, B, C)
    read = harness.run(5)
    assert read[B] + read[C] == pytest.approx(500, abs=50)
    assert read[A] <= 2, "one record is paid for by waiting"


def test_a_client_fetches_ahead_no_more_than_its_limit_lets_through() -> None:
    throttle = {"topics": [{"pattern": "a", "bytesPerSecond": 500_000}, {"pattern": "b", "bytesPerSecond": 10}]}
    harness = Harness(throttle, {"a": 1, "b": 2})
    harness.assign(A, B, C)
    assert [buffer for buffer, _ in harness.opened] == [500_000, 64 * 1024]


def test_a_session_that_begins_anew_gets_nothing_more() -> None:
    harness = Harness({"bytesPerSecond": 100 * SIZE}, {"a": 1}, records=1000)
    began = harness.clock.now
    for _ in range(50):
        harness.assign(A)
        harness.run(0.1)
    assert harness.read[A] <= 100 * (harness.clock.now - began) + 1


def test_nothing_assigned_waits_as_long_as_asked() -> None:
    harness = Harness({"bytesPerSecond": 100}, {"a": 1})
    harness.assign()
    before = harness.clock.now
    polled = harness.source.poll(10, 0.1)
    assert (polled.chunks, polled.is_held_back) == ([], False)
    assert harness.clock.now - before == pytest.approx(0.1)


def test_whoever_waits_for_tokens_says_so() -> None:
    harness = Harness({"bytesPerSecond": 100 * SIZE}, {"a": 1})
    harness.assign(A)
    assert harness.source.poll(1000, 0.05).is_held_back
    harness.clock.advance(0.2)
    polled = harness.source.poll(1000, 0.05)
    assert (polled.is_held_back, len(polled.chunks)) == (False, 1)
