"""The end of a session: pending records are committed, claims are released."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from k2k_assets.core.stops.reason import render
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.extent import Continuous, UntilCaughtUp, Window
from k2k_assets.transport.interface import Position
from k2k_assets_tests.replication.slot.session.harness import HOUR, P0, P1, Harness, arrivals
from k2k_assets_tests.support.memory.fake_transport import Arrival
from k2k_assets_tests.support.memory.plans import commit_record


def released(made: Harness) -> dict[TopicPartition, int]:
    """Positions in the last transaction that copied; only after it all claims are released, and the heartbeats end."""
    *_, last, releases = made.sink.transactions
    claims = made.sink.transactions[0].to("claims")
    *given_up, heartbeat = releases.to("claims")
    assert [(c.key, c.value) for c in given_up] == [(c.key, None) for c in claims]
    assert (json.loads(heartbeat.key)["kind"], heartbeat.value) == ("beat", None)
    return {r.source: r.position for r in made.commits(last, "release")}


def test_a_stop_record_commits_what_is_in_hand_with_the_release(harness: Any) -> None:
    records = [Arrival(i / 100, P0, i) for i in range(1000)]
    made = harness(records, {P0: 1000}, extent=Continuous(), stop_at=3.0).run()
    position = released(made)[P0]
    assert 3.0 <= made.clock.now - made.began < 3.4
    assert position == sum(len(t.offsets.get(P0, [])) for t in made.copying) >= 295


def test_until_caught_up_ends_at_what_was_stable_at_the_start(harness: Any) -> None:
    made = harness(arrivals(0, 1, 2), {P0: 3, P1: 0}, extent=UntilCaughtUp()).run()
    assert released(made) == {P0: 3, P1: 0}
    assert made.clock.now - made.began < 0.3


def test_a_window_ends_when_it_is_over_or_after_an_idle_time(harness: Any) -> None:
    trickle = [Arrival(i / 10, P0, i) for i in range(1000)]
    made = harness(trickle, {P0: 1000}, extent=Window(timedelta(seconds=4), timedelta(seconds=1))).run()
    assert made.clock.now - made.began == pytest.approx(4.0, abs=0.2)
    assert released(made)[P0] == pytest.approx(40, abs=2)

    made = harness(arrivals(0, 1, at=2.0), {P0: 2}, extent=Window(HOUR, timedelta(seconds=3))).run()
    assert made.clock.now - made.began == pytest.approx(5.0, abs=0.2)
    assert released(made) == {P0: 2}


def test_a_leader_epoch_that_the_log_has_forgotten_is_not_kept(harness: Any) -> None:
    """The one before is valid at the same offset, right behind the last record and before the markers, only."""
    positions = {P0: commit_record(P0, 5, epoch_end=4), P1: commit_record(P1, 5)}
    made = harness([], {P0: 6, P1: 6}, positions=positions)
    made.source.epochs = {P0: Position(4, 2), P1: Position(4, 1)}
    made.run()
    written = {r.source: (r.position, r.leader_epoch, r.epoch_end) for r in made.commits(made.copying[-1], "release")}
    assert written == {P0: (6, 2, 4), P1: (6, 3, 5)}


def test_a_slot_whose_partitions_were_all_stopped_releases_its_claims_and_ends(harness: Any) -> None:
    made = harness([], {P0: 9}, positions={P0: commit_record(P0, 50)}).run()
    assert released(made) == {}
    assert "before position 50: its log was truncated" in render(made.memory.stopped.reasons[P0])


def test_a_source_that_is_held_back_by_a_limit_is_neither_idle_nor_silent(harness: Any) -> None:
    """A throttled source brings nothing for longer than a window's idle time, and than a silent one is waited for."""
    made = harness(arrivals(0, 1, at=40.0), {P0: 2}, extent=Window(HOUR, timedelta(seconds=3)))
    poll = made.source.poll

    def held_back(limit: int, timeout: float) -> Any:
        polled = poll(limit, timeout)
        polled.is_held_back = made.clock.now - made.began < 40
        return polled

    made.source.poll = held_back
    made.run()
    assert made.clock.now - made.began == pytest.approx(43.0, abs=0.3)
    assert released(made) == {P0: 2}
