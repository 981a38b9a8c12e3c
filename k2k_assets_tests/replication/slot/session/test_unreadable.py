"""A record that cannot be read stops its topic; earlier records are copied and committed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.core.stops.reasons.records import BatchUnreadable
from k2k_assets.replication.extent import Continuous
from k2k_assets.transport.errors import Restart, SourceStopped
from k2k_assets.transport.interface import Polled
from k2k_assets_tests.replication.slot.session.harness import P0, P1, Harness, arrivals, pipeline_with
from k2k_assets_tests.support.memory.fake_transport import Arrival


@pytest.fixture
def unreadable(harness: Any, tmp_path: Path) -> Callable[..., Harness]:
    """A harness whose source has a record at 5 that cannot be read."""
    pipeline = pipeline_with(tmp_path, headerReplication="enabled")

    def make(*given: Any, **rest: Any) -> Harness:
        made: Harness = harness(*given, **rest, pipeline=pipeline, extent=Continuous(), stop_at=60.0)
        made.source.unreadable[P0] = 5
        return made

    return make


def stops(made: Harness) -> None:
    assert made.session.start()
    with pytest.raises(SourceStopped, match=rf"^{P0}: \[unclassified\] the record at 5 cannot be read") as stopped:
        made.session.copy()
    assert stopped.value.partition == P0


def positions(made: Harness) -> list[tuple[int, int]]:
    return [(c.source.partition, c.position) for t in made.copying for c in made.commits(t, "commit")]


def test_what_lies_before_it_is_committed_and_the_end_behind_it_is_not(unreadable: Callable[..., Harness]) -> None:
    made = unreadable([*arrivals(0, 1, 2, 4, 5, 6), *arrivals(0, 1, source=P1)], {P0: 9, P1: 2})
    stops(made)
    assert [t.offsets for t in made.copying] == [{P0: [0, 1, 2, 4], P1: [0, 1]}]
    assert sorted(positions(made)) == [(0, 5), (1, 2)]


def test_the_first_of_its_chunk_leaves_the_open_transaction_to_be_committed(unreadable: Callable[..., Harness]) -> None:
    records = [*arrivals(0, 1, 2), Arrival(0.01, P0, 5), Arrival(0.01, P0, 6)]
    made = unreadable(records, {P0: 7})
    stops(made)
    assert [t.offsets for t in made.copying] == [{P0: [0, 1, 2]}]
    assert positions(made) == [(0, 3)]


def test_the_first_of_all(unreadable: Callable[..., Harness]) -> None:
    """Where there is nothing before it, the partition is stopped without a transaction of records."""
    made = unreadable(arrivals(5, 6), {P0: 7})
    stops(made)
    assert made.copying == []


def test_a_commit_that_fails_tells_nothing_of_it_yet(unreadable: Callable[..., Harness]) -> None:
    """The reason says that all before the record is copied."""
    made = unreadable(arrivals(0, 5, 6), {P0: 7}, fail_at_commit=3)  # claim, start
    assert made.session.start()
    with pytest.raises(Restart, match="the commit failed"):
        made.session.copy()
    assert made.copying == []


@pytest.mark.parametrize("beside_a_function", [False, True])
def test_a_batch_that_the_source_finds_unreadable_is_told_when_all_in_hand_is_committed(
    harness: Any, beside_a_function: bool
) -> None:
    reason = BatchUnreadable(P0, 3, "its checksum is wrong")
    made: Harness = harness(arrivals(0, 1, 2), {P0: 3}, extent=Continuous(), last=lambda topic: topic == "u")
    assert made.session.start()
    poll = made.source.poll
    polls: list[int] = []

    def stopping(limit: int, timeout: float) -> Polled:
        polls.append(limit)
        if len(polls) > 1:
            raise SourceStopped(P0, reason)
        return poll(3, timeout)

    made.source.poll = stopping  # type: ignore[method-assign]
    made.session._committer.commit_if_due = lambda dry, now: None  # type: ignore[method-assign]
    go_on: Callable[[], object] = made.session.copy
    if beside_a_function:
        made.session._intake.take(made.session._poll(3), made.session._states, made.clock.now)
        made.session._other_topics._others = {P0: made.session._states[P0]}
        made.session._other_topics._are_alone = True
        go_on = partial(made.session._other_topics.go_on, 10.0)
    with pytest.raises(SourceStopped) as stopped:
        go_on()
    assert stopped.value.reason == reason
    assert positions(made) == [(0, 3)]
