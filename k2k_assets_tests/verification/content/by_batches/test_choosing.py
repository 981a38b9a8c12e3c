"""What is proven by batches first, and what is left of it for the comparison by records."""

from __future__ import annotations

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.algebra.fold import Covered
from k2k_assets.verification.content.by_batches import choosing
from k2k_assets.verification.content.by_batches.choosing import left_to_compare, open_ends, to_prove
from k2k_assets.verification.content.by_batches.stretches import Proven
from k2k_assets.verification.content.pieces import ComparedPiece
from k2k_assets.verification.content.sampling import Look, Unverified, looks, size

TP = TopicPartition("orders", 0)
BUDGET = 4000
# What lies beside the ranges.
BESIDE = 10 * 2 * choosing.NEIGHBOURS
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


@pytest.mark.parametrize(("name", "value"), [("RECORDS_IN_ALL", 5000), ("RUNS_OF_PARTITION", 50), ("RUNS_IN_ALL", 50)])
def test_what_is_to_be_proven_is_bounded_in_records_and_in_runs(
    monkeypatch: pytest.MonkeyPatch, name: str, value: int
) -> None:
    monkeypatch.setattr(choosing, name, value)
    look = looks(KNOWN, BUDGET, 1)
    assert 5000 <= size(to_prove(KNOWN, look, {}, {TP: 0.01})[TP]) <= 5000 + BUDGET + BESIDE


def test_however_much_was_found_wrong_what_is_to_be_proven_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges found wrong may be joined until they are a whole partition."""
    monkeypatch.setattr(choosing, "RECORDS_IN_ALL", 5000)
    wrong = {TP: Unverified(bad=[Covered(0, 10**9)], fresh=[Covered(0, 10**9)])}
    found = to_prove(wrong, looks(wrong, BUDGET, 1), {}, {TP: 0.01})[TP]
    assert found[0].start == 0
    assert size(found) <= 5000 + BUDGET + BESIDE
    few = {TP: Unverified(bad=[Covered(9000, 9500)], fresh=[Covered(0, 10**9)])}
    found = to_prove(few, looks(few, BUDGET, 1), {}, {TP: 0.01})[TP]
    assert any(start <= 9000 and end >= 9500 for start, end in found), "what was found wrong comes before what is new"


def test_ends_behind_which_there_is_more_are_open() -> None:
    found = {TP: [Covered(0, 500), Covered(9980, 30_000)]}
    assert open_ends(found, KNOWN) == {TP: {500, 9980}}


def test_what_lies_between_two_ranges_that_were_seen_at_different_times_is_seen_as_well() -> None:
    """A doubled copy between them would not be found if the one began where the other ended."""
    older = {TP: Unverified(older=[Covered(0, 30_000)])}
    nothing = {TP: Look()}
    assert to_prove(older, nothing, {TP: [Covered(0, 10_000), Covered(20_000, 30_000)]}, {})[TP] == [
        Covered(9980, 20_020)
    ]
    assert to_prove(older, nothing, {TP: [Covered(500, 30_000)]}, {})[TP] == [Covered(0, 520)]


def test_nothing_is_left_where_all_is_proven_and_the_lap_goes_on() -> None:
    look = looks(KNOWN, BUDGET, 1)
    assert look[TP].window is not None
    left = left_to_compare(KNOWN, look, {}, _proven((0, 30_000)), BUDGET, 1)[TP]
    assert (left.first, left.second) == ([], [])
    assert (left.window, left.lap_end) == (look[TP].window, look[TP].lap_end)


def test_where_nothing_is_proven_nothing_is_different() -> None:
    look = looks(KNOWN, BUDGET, 1)
    assert left_to_compare(KNOWN, look, {}, Proven(), BUDGET, 1) == look


def test_what_is_in_doubt_is_looked_at_first_and_all_the_rest_that_is_fresh_is_sampled() -> None:
    look = looks(KNOWN, BUDGET, 1)
    proven = _proven((0, 10_500), doubts=((10_499, 11_499), (50_000, 50_001)))
    left = left_to_compare(KNOWN, look, {}, proven, BUDGET, 1)[TP]
    assert any(start == 10_500 and end >= 11_499 for start, end in left.first)
    assert all(start >= 10_500 for start, _ in [*left.first, *left.second]), "the second look is proven"
    assert size(left.first) <= BUDGET


def test_what_was_compared_before_takes_not_the_place_of_what_was_never_compared() -> None:
    """Something that no bytes prove lies beside what was never seen: it is in doubt each time."""
    older = {TP: Unverified(older=[Covered(0, 100_000)])}
    look = {TP: Look()}
    seen = {TP: [Covered(0, 50_000), Covered(60_000, 100_000)]}
    proven = _proven((49_000, 49_500), (60_500, 61_000), doubts=((49_499, 49_999), (55_000, 56_000)))
    left = left_to_compare(older, look, seen, proven, 4 * 1000, 1)[TP]
    assert Covered(55_000, 56_000) in left.first
    assert Covered(49_500, 49_999) not in left.first
    reaching = _proven((49_000, 49_500), doubts=((49_499, 50_499),))
    assert left_to_compare(older, look, seen, reaching, 4 * 1000, 1)[TP].first[0] == Covered(49_980, 50_499)
    again = {TP: Look(second=[Covered(49_000, 50_000)])}
    assert left_to_compare(older, again, seen, proven, 4 * 1000, 1)[TP].first[0] == Covered(49_500, 49_999)


def test_a_second_look_that_is_not_proven_as_a_whole_is_taken_as_it_was() -> None:
    look = looks(KNOWN, BUDGET, 1)
    left = left_to_compare(KNOWN, look, {}, _proven((10_000, 30_000)), BUDGET, 1)[TP]
    assert left.window is not None
    assert left.second


def test_a_partition_of_which_nothing_was_copied_is_no_fault() -> None:
    """All of it was filtered, or aborted: it is covered, and no run maps any of it."""
    look = looks(KNOWN, BUDGET, 1)
    assert size(to_prove(KNOWN, look, {}, {TP: 0.0})[TP]) <= BUDGET + BESIDE, (
        "no more than the other comparison looks at"
    )
