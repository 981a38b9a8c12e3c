"""What is proven by batches first, and what is left of it for the comparison by records."""

from __future__ import annotations

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.algebra.fold import Covered
from k2k_assets.verification.content.by_batches import choosing
from k2k_assets.verification.content.by_batches.choosing import left_to_compare, to_prove
from k2k_assets.verification.content.by_batches.stretches import Proven
from k2k_assets.verification.content.pieces import ComparedPiece
from k2k_assets.verification.content.sampling import Unverified, looks, size

TP = TopicPartition("orders", 0)
BUDGET = 4000
# Verified up to 10,001, of which a part was seen; 20,000 are new.
KNOWN = {TP: Unverified(fresh=[Covered(10_000, 30_000)], older=[Covered(0, 10_001)], lap=Covered(4000, 10_001))}


def _proven(*ranges: tuple[int, int], doubts: tuple[tuple[int, int], ...] = ()) -> Proven:
    pieces = [
        ComparedPiece(*TP, *each, "read_committed", headers=True, timestamps=True, noted=True, alone=True)
        for each in ranges
    ]
    return Proven(pieces, {TP: [Covered(*each) for each in doubts]})


def test_all_that_is_fresh_and_all_that_was_not_seen_is_to_be_proven() -> None:
    look = looks(KNOWN, BUDGET, 1)
    found = to_prove(KNOWN, look, {TP: [Covered(0, 10_001)]}, {TP: 0.001})[TP]
    assert found[-1].end == 30_000
    assert any(start <= 10_000 and end == 30_000 for start, end in found)
    assert size(found) < 21_000 + BUDGET, "of what was seen only what the other comparison looks at again"
    unseen = to_prove(KNOWN, look, {TP: [Covered(500, 10_001)]}, {TP: 0.001})[TP]
    assert unseen[0].start == 0
    assert to_prove(KNOWN, look, {}, {})[TP] == [Covered(0, 30_000)]


@pytest.mark.parametrize(("name", "value"), [("RECORDS_IN_ALL", 5000), ("RUNS_OF_PARTITION", 50)])
def test_what_is_to_be_proven_is_bounded_in_records_and_in_runs(
    monkeypatch: pytest.MonkeyPatch, name: str, value: int
) -> None:
    monkeypatch.setattr(choosing, name, value)
    look = looks(KNOWN, BUDGET, 1)
    assert 5000 <= size(to_prove(KNOWN, look, {}, {TP: 0.01})[TP]) <= 5000 + BUDGET


def test_nothing_is_left_where_all_is_proven_and_the_lap_goes_on() -> None:
    look = looks(KNOWN, BUDGET, 1)
    assert look[TP].window is not None
    left = left_to_compare(KNOWN, look, _proven((0, 30_000)), BUDGET, 1)[TP]
    assert (left.first, left.second) == ([], [])
    assert (left.window, left.lap_end) == (look[TP].window, look[TP].lap_end)


def test_where_nothing_is_proven_nothing_is_different() -> None:
    look = looks(KNOWN, BUDGET, 1)
    assert left_to_compare(KNOWN, look, Proven(), BUDGET, 1) == look


def test_what_is_in_doubt_is_looked_at_first_and_all_the_rest_that_is_fresh_is_sampled() -> None:
    look = looks(KNOWN, BUDGET, 1)
    proven = _proven((0, 10_500), doubts=((10_499, 11_499), (50_000, 50_001)))
    left = left_to_compare(KNOWN, look, proven, BUDGET, 1)[TP]
    assert any(start == 10_500 and end >= 11_499 for start, end in left.first)
    assert all(start >= 10_500 for start, _ in [*left.first, *left.second]), "the second look is proven"
    assert size(left.first) <= BUDGET


def test_a_second_look_that_is_not_proven_as_a_whole_is_taken_as_it_was() -> None:
    look = looks(KNOWN, BUDGET, 1)
    left = left_to_compare(KNOWN, look, _proven((10_000, 30_000)), BUDGET, 1)[TP]
    assert left.window is not None
    assert left.second
