"""A record that cannot be read stops its topic; earlier records are copied and committed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.replication.extent import Continuous
from k2k_assets.transport.errors import Restart, SourceStopped
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
