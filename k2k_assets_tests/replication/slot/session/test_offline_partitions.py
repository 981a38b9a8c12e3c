"""A session leaves out offline partitions: how long it waits for them, and what it notes about them."""

from __future__ import annotations

from datetime import timedelta
from math import inf
from typing import Any

import pytest

from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.stops.reason import StopReason, render
from k2k_assets.core.stops.reasons.records import TransformFailed
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.extent import Continuous, Extent, UntilCaughtUp, Window
from k2k_assets.replication.slot.start import offline_partitions
from k2k_assets_tests.replication.slot.session.harness import HOUR, P0, P1, U0, Harness, arrivals
from k2k_assets_tests.support.memory.plans import commit_record

SECOND = timedelta(seconds=1)


@pytest.fixture(autouse=True)
def no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline_partitions, "_POLL_SECONDS", inf)


def reasons(made: Harness) -> list[StopReason | None]:
    """What the commit topic is told of partition 1, one for each record."""
    return [r.reason for t in made.sink.transactions for r in made.commits(t) if r.source == P1]


@pytest.mark.parametrize(
    ("extent", "seconds"),
    [
        (UntilCaughtUp(), 60),
        (Window(HOUR, SECOND), 60),
        (Window(20 * SECOND, SECOND), 20),
    ],
)
def test_a_run_with_an_end_waits_for_it_and_then_stops_it_without_a_note(
    harness: Any, extent: Extent, seconds: float
) -> None:
    made = harness(arrivals(0, 1), {P0: 2, P1: 9}, extent=extent, positions={P1: commit_record(P1, 5)})
    made.clusters[1].offline_partitions.add(P1)
    made.run()
    assert made.clock.now - made.began == pytest.approx(seconds, abs=1)
    assert made.memory.stopped.reasons.keys() == {P1}
    assert reasons(made) == []
    made.session.start()
    assert reasons(made) == [], "nor by the next session"


def test_it_is_waited_for_and_then_stopped_although_all_else_is_paused(harness: Any) -> None:
    made = harness([], {P0: 2, U0: 9}, positions={U0: commit_record(U0, 5)})
    made.tail.paused_at = made.began
    made.clusters[1].offline_partitions.add(U0)
    with pytest.raises(ClusterUnreachable, match=r"nothing else is to be copied than u-0"):
        made.run()
    assert made.memory.stopped.reasons == {}, "a leader may yet be elected"
    made.clock.advance(61)
    made.run()
    assert (made.ended, made.memory.stopped.reasons.keys()) == (True, {U0})


def test_while_paused_topics_are_waited_for_it_is_left_out(harness: Any) -> None:
    made = harness([], {P0: 2, U0: 9}, positions={U0: commit_record(U0, 5)}, extent=Continuous(), stop_at=5.0)
    made.tail.paused_at = made.began
    made.clusters[1].offline_partitions.add(U0)
    made.run()
    assert (made.ended, made.memory.stopped.reasons) == (True, {})


def test_a_reason_that_is_found_when_it_has_a_leader_again_is_noted(harness: Any) -> None:
    made = harness(arrivals(0, 1), {P0: 2, P1: 3}, positions={P1: commit_record(P1, 5)})
    made.memory.offline_since[P1] = made.clock.now
    made.run()
    assert "its log was truncated" in render(made.memory.stopped.reasons[P1])
    assert reasons(made) == [made.memory.stopped.reasons[P1]]


def test_what_is_stopped_is_told_once_though_nothing_else_has_a_leader(harness: Any) -> None:
    """Each session ends for want of a leader, for hours perhaps, and the stop is no news to the next one."""
    made: Harness = harness([], {P0: 2, P1: 9, U0: 3}, positions={P1: commit_record(P1, 5)}, extent=Continuous())
    why = TransformFailed.example()
    for tp in (P0, P1):
        made.memory.stopped.stop(tp, why)
    made.clusters[1].offline_partitions.add(U0)

    def told() -> list[tuple[TopicPartition, StopReason | None]]:
        with pytest.raises(ClusterUnreachable, match="nothing else is to be copied than u-0"):
            made.run()
        written = [*made.sink.transactions]
        made.sink.transactions.clear()
        notes = {tp: note for t in written for tp, note in made.notes(t).items() if note}
        records = {r.source: r for t in written for r in made.commits(t)}
        made.commit_log.noted |= notes
        made.commit_log.positions |= records
        return [(tp, said.reason) for tp, said in (notes | records).items()]

    assert told() == [(P0, why), (P1, why)]
    assert told() == []
