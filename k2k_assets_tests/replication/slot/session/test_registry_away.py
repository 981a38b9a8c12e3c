"""A session of which some records need a schema registry that does not answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.registry.schemas import RegistryUnreachable
from k2k_assets.replication.extent import Continuous, UntilCaughtUp, Window
from k2k_assets.transport.chunk import Chunk
from k2k_assets_tests.replication.slot.session.harness import HOUR, P0, P1, U0, Harness, arrivals
from k2k_assets_tests.support.memory.clock import FakeClock
from k2k_assets_tests.support.memory.fake_transport import Arrival


def needing(tp: TopicPartition, first: int, clock: FakeClock | None = None) -> Callable[[Chunk], Chunk]:
    """A stage as schema mapping: nobody tells the id of the records of a partition from an offset on, after 8 s."""

    def stage(chunk: Chunk) -> Chunk:
        if chunk.source == tp and chunk.last_offset >= first:
            if clock is not None:
                clock.sleep(8.0)
            away = RegistryUnreachable("the registry does not answer")
            if chunk.first_offset >= first:
                raise away
            chunk.cut([*chunk.records.offsets()].index(first), None, away)
        return chunk

    return stage


def away(made: Harness) -> None:
    assert made.session.start()
    with pytest.raises(RegistryUnreachable):
        made.session.copy()


def positions(made: Harness) -> dict[TopicPartition, int]:
    return {r.source: r.position for t in made.copying for r in made.commits(t)}


@pytest.mark.parametrize("first", [0, 2])
def test_all_else_is_copied_and_committed_before_the_session_ends(harness: Any, first: int) -> None:
    records = [*arrivals(0, 1, 2, 3), *arrivals(0, 1, source=P1), *arrivals(0, 1, 2, source=U0)]
    made = harness(records, {P0: 4, P1: 2, U0: 3}, extent=Continuous(), first_stages=[needing(P0, first)])
    away(made)
    assert positions(made) == {P1: 2, U0: 3, **({P0: first} if first else {})}
    assert [o for t in made.copying for o in t.offsets.get(P0, [])] == list(range(first))


def test_the_others_are_copied_on_for_a_while_and_nothing_behind_a_gap(harness: Any, clock: FakeClock) -> None:
    """Of the partition that waits no record is taken that came later, nor its end."""
    more = [Arrival(8.5 + n / 2, tp, 2 + n) for n in range(6) for tp in (P0, U0)]
    made = harness(
        [*arrivals(0, 1), *arrivals(0, 1, source=U0), *more], {P0: 9, U0: 8},
        extent=Continuous(), first_stages=[needing(P0, 1, clock)],
    )  # fmt: skip
    away(made)
    assert positions(made) == {P0: 1, U0: 8}
    assert 11 < made.clock.now - made.began < 16
    assert max(t.at - made.began for t in made.copying if U0 in t.offsets) > 10.5


def test_a_partition_that_has_to_wait_later_is_left_out_too(harness: Any) -> None:
    records = [*arrivals(0, 1), Arrival(1.0, P1, 0), *arrivals(0, source=U0), Arrival(2.0, U0, 1)]
    stages = [needing(P0, 0), needing(P1, 0)]
    made = harness(records, {P0: 2, P1: 1, U0: 2}, extent=Continuous(), first_stages=stages)
    away(made)
    assert positions(made) == {U0: 2}
    assert set(made.source.assigned) == {U0}


def test_a_run_with_an_end_that_has_copied_all_does_not_wait_for_the_registry(harness: Any) -> None:
    """What needs it came later than the end."""
    records = [*arrivals(0, 1), Arrival(0.0, P0, 2), *arrivals(0, source=U0)]
    made = harness(records, {P0: 2, U0: 1}, extent=UntilCaughtUp(), first_stages=[needing(P0, 2)])
    assert made.run().ended is True
    assert positions(made) == {P0: 2, U0: 1}


def test_a_slot_without_others_ends_its_session_at_once(harness: Any) -> None:
    made = harness(arrivals(0, 1), {P0: 2}, extent=Continuous(), first_stages=[needing(P0, 0)])
    made.session.start()
    for tp in set(made.session._states) - {P0}:
        del made.session._states[tp]
    with pytest.raises(RegistryUnreachable):
        made.session.copy()
    assert made.clock.now - made.began < 2


def test_a_window_does_not_end_as_idle_while_records_wait(harness: Any) -> None:
    extent = Window(HOUR, HOUR / 3600)
    made = harness(arrivals(0, 1), {P0: 2}, extent=extent, first_stages=[needing(P0, 0)])
    away(made)


def test_a_run_with_an_end_copies_no_more_of_others_than_that(harness: Any) -> None:
    """Else the traffic of another topic would be progress, and the run would wait for the registry without end."""
    later = [Arrival(1.0 + n, U0, 1 + n) for n in range(8)]
    records = [*arrivals(0, 1), *arrivals(0, source=U0), *later]
    made = harness(records, {P0: 2, U0: 1}, extent=UntilCaughtUp(), first_stages=[needing(P0, 0)])
    away(made)
    assert positions(made) == {U0: 1}
    assert made.clock.now - made.began < 2
