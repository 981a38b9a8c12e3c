"""A session whose topic is paused: it commits and lets go of the partitions, and keeps its claims."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from k2k_assets.replication.extent import Continuous, Extent, UntilCaughtUp, Window
from k2k_assets_tests.replication.slot.session.harness import P0, P1, Harness
from k2k_assets_tests.support.memory.fake_transport import Arrival


def _claims_left(made: Harness) -> int:
    claims = [c for t in made.sink.transactions for c in t.to("claims") if json.loads(c.key)["kind"] == "claim"]
    return len({c.key for c in claims} - {c.key for c in claims if c.value is None})


def test_what_is_in_hand_is_committed_and_the_claims_stay(harness: Any) -> None:
    records = [Arrival(i / 100, P0, i) for i in range(1000)]
    made = harness(records, {P0: 1000, P1: 0}, extent=Continuous())
    made.tail.paused_at = made.began + 2.0
    made.run()
    assert made.ended is False, "the next session begins without the topic"
    assert made.clock.now - made.began == pytest.approx(2.2, abs=0.3)
    last = made.copying[-1]
    copied = sum(len(t.offsets.get(P0, [])) for t in made.copying)
    assert {r.source: r.position for r in made.commits(last, "release")} == {P0: copied, P1: 0}
    assert _claims_left(made) == 2


def test_while_nothing_else_is_to_be_copied_it_waits_and_writes_heartbeats(harness: Any) -> None:
    made = harness([Arrival(0.0, P0, 0)], {P0: 1}, extent=Continuous(), stop_at=60.0)
    made.tail.paused_at, made.tail.resumed_at = made.began, made.began + 30.0
    made.run()
    assert made.ended is False, "the next session begins with the topic"
    assert made.clock.now - made.began == pytest.approx(30.2, abs=0.3)
    assert made.copying == []
    assert made.source.assigned == {}
    kinds = [json.loads(c.key)["kind"] for t in made.sink.transactions for c in t.to("claims")]
    assert kinds.count("beat") >= 5
    assert _claims_left(made) == 1


def test_told_to_stop_meanwhile_it_releases_and_ends(harness: Any) -> None:
    made = harness([Arrival(0.0, P0, 0)], {P0: 1}, extent=Continuous(), stop_at=5.0)
    made.tail.paused_at = made.began
    made.run()
    assert made.ended is True
    assert _claims_left(made) == 0


@pytest.mark.parametrize("extent", [UntilCaughtUp(), Window(timedelta(hours=1), timedelta(hours=1))])
def test_a_run_with_an_end_does_not_wait_for_it(harness: Any, extent: Extent) -> None:
    made = harness([Arrival(0.0, P0, 0)], {P0: 1}, extent=extent)
    made.tail.paused_at = made.began
    made.run()
    assert made.ended is True
    assert made.clock.now - made.began < 1.0
    assert made.copying == []
