"""A session whose chunk is with a function of the user, which takes long or does not return."""

from __future__ import annotations

import json
from typing import Any

import pytest

from k2k_assets.replication.extent import Continuous
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.errors import Restart
from k2k_assets_tests.replication.slot.session.harness import P0, P1, U0, Harness, arrivals
from k2k_assets_tests.support.memory.fake_transport import Arrival

RECORDS = [*arrivals(0, 1, 2), Arrival(0.0, P1, 0), Arrival(0.0, P1, 1)]
ENDS = {P0: 3, P1: 2}


class Slow:
    """A function that works on the chunks of P1 for so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.harness: Harness | None = None
        self.left_at: float | None = None

    def __call__(self, chunk: Chunk) -> Chunk:
        made = self.harness
        assert made is not None
        if chunk.source == P1:
            end = made.clock.now + self._seconds
            while made.clock.now < end:
                made.clock.sleep(0.25)
                try:
                    made.session.while_function_runs()
                except Exception:
                    self.left_at = made.clock.now - made.began
                    raise
        return chunk


def slow(harness: Any, seconds: float, **rest: Any) -> tuple[Harness, Slow]:
    function = Slow(seconds)
    made: Harness = harness(RECORDS, ENDS, extent=Continuous(), first_stages=[function], **rest)
    function.harness = made
    return made, function


def heartbeats(made: Harness) -> int:
    kinds = [json.loads(c.key)["kind"] for t in made.sink.transactions for c in t.to("claims")]
    return kinds.count("beat")


def positions(made: Harness) -> dict[Any, int]:
    return {r.source: r.position for t in made.copying for r in made.commits(t)}


def test_what_is_in_hand_is_committed_meanwhile_and_heartbeats_go_on(harness: Any) -> None:
    made, function = slow(harness, 60.0, stop_at=70.0)
    made.run()
    assert made.ended is True
    assert function.left_at is None
    first = next(t for t in made.copying if t.chunks)
    assert first.at - made.began < 10, "the records before it are not held up, nor is their transaction"
    assert {r.source: r.position for r in made.commits(first)} == {P0: 3}
    assert heartbeats(made) >= 10
    assert positions(made) == {P0: 3, P1: 2}
    assert sorted(o for t in made.copying for o in t.offsets.get(P1, [])) == [0, 1]


@pytest.mark.parametrize("is_last", [True, False])
def test_topics_without_functions_come_first_and_their_records_are_committed_meanwhile(
    harness: Any, is_last: bool
) -> None:
    function = Slow(60.0)
    made: Harness = harness(
        [*arrivals(0, 1, source=P1), *arrivals(0, 1, 2, source=U0)], {P1: 2, U0: 3},
        extent=Continuous(), first_stages=[function], stop_at=70.0, last=lambda topic: is_last and topic == P1.topic,
    )  # fmt: skip
    function.harness = made
    made.run()
    first = next(t for t in made.copying if U0 in t.offsets)
    assert (first.at - made.began < 10) is is_last
    assert positions(made) == {P1: 2, U0: 3}


def test_told_to_stop_it_gives_the_function_time_and_ends_without_its_chunk(harness: Any) -> None:
    made, function = slow(harness, 3600.0, stop_at=20.0)
    made.run()
    assert made.ended is True
    assert function.left_at == pytest.approx(30.0, abs=1.0)
    assert positions(made) == {P0: 3, P1: 0}
    assert all(P1 not in t.offsets for t in made.copying)
    claims = {c.key: c.value for t in made.sink.transactions for c in t.to("claims") if b'"claim"' in c.key}
    assert claims
    assert set(claims.values()) == {None}, "what it had claimed is released"


def test_a_function_that_returns_in_that_time_is_not_ended(harness: Any) -> None:
    made, function = slow(harness, 25.0, stop_at=20.0)
    made.run()
    assert (made.ended, function.left_at) == (True, None)
    assert positions(made) == {P0: 3, P1: 2}


def test_a_higher_claim_is_yielded_to_without_its_chunk(harness: Any) -> None:
    made, function = slow(harness, 3600.0, newer_at=20.0)
    made.run()
    assert made.ended is False
    assert function.left_at == pytest.approx(30.0, abs=1.0)
    assert positions(made) == {P0: 3, P1: 0}


def test_a_paused_topic_is_let_go_without_its_chunk(harness: Any) -> None:
    made, function = slow(harness, 3600.0)
    made.tail.paused_at = made.began + 20.0
    made.run()
    assert made.ended is False
    assert function.left_at == pytest.approx(30.0, abs=1.0)
    assert positions(made) == {P0: 3, P1: 0}


def test_what_the_target_refuses_meanwhile_ends_the_session_at_once(harness: Any) -> None:
    made, function = slow(harness, 3600.0, fail_at_commit=3)
    with pytest.raises(Restart):
        made.run()
    assert function.left_at is not None
    assert function.left_at < 10
    assert all(P1 not in t.offsets for t in made.copying)
