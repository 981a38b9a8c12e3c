"""A source without records: whether it is reachable, and whether its records arrive."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster_offsets import LedOffsets
from k2k_assets.replication.extent import Continuous, Extent, UntilCaughtUp, Window
from k2k_assets.replication.slot.slot_memory import StallHistory
from k2k_assets.transport.errors import Restart
from k2k_assets_tests.replication.slot.session.harness import HOUR, P0, P1, Harness, arrivals, pipeline_with
from k2k_assets_tests.support.memory.fake_transport import Arrival

EXTENTS = [Continuous(), Window(HOUR, HOUR)]


class Asked:
    """What the source of a session that has been started answers when it is asked where it ends.

    Args:
        made: The harness whose source it is.
        ends: The answers, by what is asked for.
        down: Between these seconds since the beginning it does not answer.
    """

    def __init__(
        self, made: Harness, ends: dict[str, dict[TopicPartition, int]], down: tuple[float, float] = (0, 0)
    ) -> None:
        self.at: list[float] = []
        self.ends = ends
        self.offline_partitions: set[TopicPartition] = set()
        self._made, self._down = made, down
        assert made.session.start()
        made.tail.stop_at = min(made.tail.stop_at, made.clock.now + 2000)  # a session that would never end fails
        made.clusters[0].led_offsets = self.led_offsets  # type: ignore[method-assign, assignment]

    def led_offsets(self, partitions: Iterable[TopicPartition], which: str, _patience: float) -> LedOffsets:
        self.at.append(round(self._made.clock.now - self._made.began, 1))
        if self._down[0] < self.at[-1] < self._down[1]:
            raise ClusterUnreachable("the source cluster at a:1 does not answer")
        offline = {tp: f"no leader for {tp}" for tp in partitions if tp in self.offline_partitions}
        return LedOffsets({tp: self.ends[which].get(tp, 0) for tp in partitions if tp not in offline}, offline)


def stands_still(made: Harness, words: str = "the source has records that do not come") -> float:
    """Copies until a session ends because nothing comes; how long that took."""
    began = made.clock.now
    with pytest.raises(Restart, match=words):
        made.session.copy()
    return made.clock.now - began


@pytest.mark.parametrize("extent", EXTENTS)
def test_what_the_source_has_and_does_not_come_starts_the_session_anew(harness: Any, extent: Extent) -> None:
    made = harness(arrivals(0, 1), {P0: 2, P1: 0}, extent=extent)
    Asked(made, {"stable": {P0: 250, P1: 0}, "latest": {P0: 900, P1: 7}})
    words = f"records that do not come: {P0} stands at 2 of 250$"
    assert stands_still(made, words) == pytest.approx(30, abs=1)
    assert [t.offsets for t in made.copying if t.chunks] == [{P0: [0, 1]}]


def test_what_has_just_been_written_is_given_the_time_to_come(harness: Any) -> None:
    """The question overtakes a record: it is there, and has not been waited for at all."""
    records = [Arrival(15.5 + 20 * i, P0, i) for i in range(4)]
    made = harness(records, {P0: 4}, extent=Continuous(), stop_at=130.0)
    asked = Asked(made, {"stable": {P0: 5}})
    made.source._waiting.append(Arrival(made.began + 95, P0, 4))
    assert made.session.copy()
    assert sum(len(t.offsets[P0]) for t in made.copying if t.chunks) == 5
    assert asked.at[:3] == pytest.approx([15, 30.5, 50.5], abs=1)


def test_the_time_doubles_with_each_session_that_got_nothing_and_no_further(harness: Any) -> None:
    took = []
    stalls = StallHistory()
    for _ in range(9):
        made = harness([], {P0: 0}, extent=Continuous())
        made.memory.stalls = stalls
        Asked(made, {"stable": {P0: 5}})
        took.append(stands_still(made))
        stalls = made.memory.stalls
    assert took == pytest.approx([30, 45, 75, 135, 255, 495, 615, 615, 615], abs=12)
    made.memory.stalls = StallHistory(10_000)
    made.session._silent_source.heard(made.clock.now)
    assert stands_still(made) == pytest.approx(615, abs=12)


def test_after_a_commit_it_is_short_again(harness: Any) -> None:
    made = harness(arrivals(0), {P0: 1}, extent=Continuous())
    made.memory.stalls = StallHistory(5)
    Asked(made, {"stable": {P0: 5}})
    assert stands_still(made) == pytest.approx(30, abs=1)
    assert made.memory.stalls.since(made.memory.commits) == 1


def test_a_slow_link_gets_its_batch_in_the_end(harness: Any) -> None:
    """Each session fetches the same batch from its beginning; one that takes longer than the silence must come."""
    stalls = StallHistory()
    for _ in range(3):
        made = harness(arrivals(0, at=100.0), {P0: 1}, extent=UntilCaughtUp())
        made.memory.stalls = stalls
        Asked(made, {"stable": {P0: 1}})
        stands_still(made)
        stalls = made.memory.stalls
    made = harness(arrivals(0, at=100.0), {P0: 1}, extent=UntilCaughtUp())
    made.memory.stalls = stalls
    Asked(made, {"stable": {P0: 1}})
    assert made.session.copy()
    assert made.copying[0].offsets == {P0: [0]}


@pytest.mark.parametrize("extent", [Continuous(), Window(timedelta(seconds=100), HOUR)])
def test_transaction_markers_at_the_end_are_nothing_that_could_come(harness: Any, extent: Extent) -> None:
    made = harness(arrivals(0, 1), {P0: 5, P1: 3}, extent=extent, stop_at=100.0)
    asked = Asked(made, {"stable": {P0: 5, P1: 3}})
    assert made.session.copy()
    assert made.clock.now - made.began == pytest.approx(100, abs=1)
    assert asked.at == pytest.approx([15, 30, 45, 60, 75, 90], abs=3)


def test_the_end_is_that_of_what_the_consumer_may_read(harness: Any, tmp_path: Path) -> None:
    ends = {"stable": {P0: 2}, "latest": {P0: 7}}
    committed = harness(arrivals(0, 1), {P0: 2}, extent=Continuous(), stop_at=100.0)
    Asked(committed, ends)
    assert committed.session.copy()

    at_least_once = pipeline_with(tmp_path, isolation="read_uncommitted", exactlyOnce="disabled")
    uncommitted = harness(arrivals(0, 1), {P0: 2}, extent=Continuous(), pipeline=at_least_once)
    Asked(uncommitted, ends)
    stands_still(uncommitted, f"{P0} stands at 2 of 7$")


def test_a_continuous_slot_waits_for_a_source_that_is_down(harness: Any, caplog: Any) -> None:
    made = harness(arrivals(0, at=200.0), {P0: 1}, extent=Continuous(), stop_at=210.0)
    asked = Asked(made, {"stable": {P0: 1}}, down=(1, 190))
    with caplog.at_level(logging.WARNING, "k2k.replication"):
        assert made.session.copy()
    assert made.copying[0].offsets == {P0: [0]}
    assert len(asked.at) > 10
    assert sum("it does not tell the ends of its partitions" in record.message for record in caplog.records) == 1


def test_a_slot_with_an_end_does_not(harness: Any) -> None:
    made = harness(arrivals(0, at=200.0), {P0: 1}, extent=UntilCaughtUp())
    Asked(made, {"stable": {P0: 1}}, down=(1, 190))
    with pytest.raises(ClusterUnreachable):
        made.session.copy()
    assert made.clock.now - made.began == pytest.approx(15, abs=1)


def test_a_source_that_is_heard_is_not_asked(harness: Any) -> None:
    trickle = [Arrival(float(i), P0, i) for i in range(40)]
    made = harness(trickle, {P0: 40, P1: 0}, extent=Window(timedelta(seconds=40), HOUR))
    asked = Asked(made, {"stable": {P0: 40, P1: 900}})
    assert made.session.copy()
    assert asked.at == []


def test_who_waits_for_an_end_finds_a_partition_that_has_lost_its_leader_beside_others_that_talk(harness: Any) -> None:
    trickle = [Arrival(float(i), P0, i) for i in range(40)]
    made = harness(trickle, {P0: 40, P1: 40})
    asked = Asked(made, {"stable": {P0: 40, P1: 40}})
    made.source._told.add(P1)  # its consumer returns nothing
    asked.offline_partitions.add(P1)
    assert stands_still(made, f"^{P1}: no leader for {P1}$") == pytest.approx(16, abs=1)


def test_a_partition_that_has_come_to_its_end_needs_no_leader(harness: Any) -> None:
    trickle = [Arrival(float(i), P0, i) for i in range(40)]
    made = harness(trickle, {P0: 40, P1: 0})
    asked = Asked(made, {"stable": {P0: 40, P1: 0}})
    asked.offline_partitions.add(P1)
    assert made.session.copy()
    assert asked.at == pytest.approx([15, 30], abs=3)


@pytest.mark.parametrize("extent", EXTENTS)
def test_beside_a_partition_without_a_leader_what_does_not_come_of_others_is_found(
    harness: Any, extent: Extent
) -> None:
    made = harness(arrivals(0, 1), {P0: 2, P1: 0}, extent=extent)
    asked = Asked(made, {"stable": {P0: 250, P1: 0}})
    asked.offline_partitions.add(P1)
    if isinstance(extent, Continuous):
        words, seconds = f"records that do not come: {P0} stands at 2 of 250$", 30
    else:  # the next session leaves it out, and reports it
        words, seconds = f"no leader for {P1}", 15
    assert stands_still(made, words) == pytest.approx(seconds, abs=1)
