"""A session whose chunk is with a function of the user, which takes long or does not return."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from k2k_assets.core.stops.reasons.unclassified import Unclassified
from k2k_assets.replication.extent import Continuous, Window
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.errors import Restart, SourceStopped
from k2k_assets.transport.interface import Polled
from k2k_assets_tests.replication.slot.session.harness import P0, P1, U0, Harness, arrivals
from k2k_assets_tests.support.memory.fake_transport import Arrival

RECORDS = [*arrivals(0, 1, 2), Arrival(0.0, P1, 0), Arrival(0.0, P1, 1)]
ENDS = {P0: 3, P1: 2}


class Slow:
    """A function that works on the chunks of P1 for so many seconds, or on the first one alone."""

    def __init__(self, seconds: float, once: bool = False) -> None:
        self._seconds, self._once = seconds, once
        self.harness: Harness | None = None
        self.left_at: float | None = None

    def __call__(self, chunk: Chunk) -> Chunk:
        made = self.harness
        assert made is not None
        if chunk.source == P1 and (chunk.first_offset == 0 or not self._once):
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


def beside(harness: Any, seconds: float, more: list[Arrival], **rest: Any) -> tuple[Harness, Slow]:
    """A function for `t`, whose partition 1 it works on for so long, and a topic `u` without one."""
    function = Slow(seconds, once=True)
    there = [*arrivals(0, 1, source=P1), *arrivals(0, 1, 2, source=U0)]
    made: Harness = harness(
        [*there, *more], {P1: 2 + sum(a.source == P1 for a in more), U0: 3 + sum(a.source == U0 for a in more)},
        extent=Continuous(), first_stages=[function], last=lambda topic: topic == "t", **rest,
    )  # fmt: skip
    function.harness = made
    return made, function


def test_topics_without_functions_are_copied_on_while_a_function_takes_long(harness: Any) -> None:
    """Within seconds, however much of the function's topic has arrived; and of that each record once, in order."""
    more = [Arrival(10.0 + n, U0, 3 + n) for n in range(40)] + [Arrival(5.0, P1, 2 + n) for n in range(50)]
    made, function = beside(harness, 60.0, more, stop_at=80.0)
    made.run()
    assert (made.ended, function.left_at) == (True, None)
    copied = {o: t.at - made.began for t in made.copying for o in t.offsets.get(U0, [])}
    assert list(copied) == list(range(43))
    assert all(copied[3 + n] - (10.0 + n) < 1.0 for n in range(40))
    assert [o for t in made.copying for o in t.offsets.get(P1, [])] == list(range(52))
    assert min(t.at - made.began for t in made.copying if P1 in t.offsets) >= 60.0
    assert all(sum(len(o) for o in t.offsets.values()) <= 10 for t in made.copying), "as many as batchSize says"


def test_a_function_that_is_quick_lets_the_source_be_read_as_ever(
    harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = beside(harness, 1.5, [Arrival(1.0, U0, 3)], stop_at=5.0)
    assigned: list[Any] = []
    assign = made.source.assign

    def noted(at: Any, *rest: Any) -> None:
        assigned.append(set(at))
        assign(at, *rest)

    monkeypatch.setattr(made.source, "assign", noted)
    made.run()
    assert assigned == [{P0, P1, U0} & set(made.source.assigned)]
    assert positions(made) == {P1: 2, U0: 4}


def test_others_are_not_copied_on_when_the_session_has_to_end(harness: Any) -> None:
    made, function = beside(harness, 3600.0, [Arrival(25.0, U0, 3)], stop_at=20.0)
    made.run()
    assert function.left_at == pytest.approx(30.0, abs=1.0)
    assert positions(made) == {P1: 0, U0: 3}


def test_another_topic_that_stops_meanwhile_ends_the_session_without_the_functions_chunk(harness: Any) -> None:
    made, function = beside(harness, 3600.0, [Arrival(5.0, U0, 3)], stop_at=100.0)
    poll = made.source.poll

    def stopping(limit: int, timeout: float) -> Polled:
        if made.clock.now - made.began >= 10.0:
            raise SourceStopped(U0, Unclassified("its log was cut off"))
        return poll(limit, timeout)

    made.source.poll = stopping  # type: ignore[method-assign]
    with pytest.raises(SourceStopped):
        made.run()
    assert function.left_at == pytest.approx(10.0, abs=1.0)
    assert positions(made) == {U0: 4}
    assert all(P1 not in t.offsets for t in made.copying)


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


def test_while_a_function_works_a_window_is_not_idle(harness: Any) -> None:
    """What waits behind its records is read when it is done, though it took longer than a window waits for records."""
    function = Slow(10.0, once=True)
    later = [Arrival(5.0, P1, n) for n in range(2, 6)]
    made: Harness = harness(
        [*arrivals(0, 1, source=P1), *later], {P1: 6},
        extent=Window(timedelta(hours=1), timedelta(seconds=3)), first_stages=[function], stop_at=70.0,
    )  # fmt: skip
    function.harness = made
    made.run()
    assert positions(made) == {P1: 6}
