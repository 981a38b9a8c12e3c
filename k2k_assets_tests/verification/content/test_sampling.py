"""The sample of an evaluation: bad and fresh ranges first, everything in bounded time, never beyond the budget."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.mapping.algebra.fold import Covered
from k2k_assets.mapping.algebra.in_memory_mapping import intersection
from k2k_assets.verification.content.sampling import (
    LEAST_PER_PARTITION,
    RECORDS_IN_ALL,
    Look,
    Ranges,
    Unverified,
    fair_shares,
    joined,
    looks,
    next_budget,
    size,
)


@st.composite
def _ranges(draw: st.DrawFn, most: int = 300_000) -> list[Covered]:
    bounds = sorted(draw(st.sets(st.integers(0, most), max_size=8)))
    return [Covered(*each) for each in zip(bounds[::2], bounds[1::2], strict=False)]


@st.composite
def _partitions(draw: st.DrawFn) -> Unverified:
    readable = draw(_ranges())
    at = draw(st.integers(0, 300_000))
    fresh, older = (intersection(readable, [each]) for each in (Covered(at, 10**9), Covered(0, at + 1)))
    bad = intersection(draw(_ranges()), readable)
    return Unverified(bad, fresh, older, Covered(*sorted(draw(st.tuples(st.integers(0, at), st.integers(0, at))))))


def _look(unverified: Unverified, seed: int = 1) -> Look:
    return looks({"p": unverified}, None, seed)["p"]


def _is_within(inner: Ranges, outer: Ranges) -> bool:
    return size(intersection(inner, outer)) == size(inner)


@given(st.lists(_partitions(), max_size=6), st.integers(0, 99))
def test_stretches_lie_in_what_there_is_and_keep_to_the_budget(partitions: list[Unverified], seed: int) -> None:
    found = looks(dict(enumerate(partitions)), None, seed)
    assert len(found) == len(partitions)
    for n, look in found.items():
        of = partitions[n]
        there = [Covered(*each) for each in joined([*of.bad, *of.fresh, *of.older], 0)]
        both = sorted([*look.first, *look.second])
        assert _is_within(both, there)
        assert all(one.start < one.end < other.start for one, other in pairwise([*both, Covered(10**9, 10**9 + 1)]))
    assert sum(size([*look.first, *look.second]) for look in found.values()) <= RECORDS_IN_ALL


@given(_partitions())
def test_oldest_and_newest_are_always_among_them(of: Unverified) -> None:
    look = _look(of)
    both = [*look.first, *look.second]
    for ranges in (of.fresh, of.older):
        for offset in (ranges[0].start, ranges[-1].end - 1) if ranges else ():
            assert any(start <= offset < end for start, end in both)


def test_what_fits_is_looked_at_as_a_whole() -> None:
    look = _look(Unverified(fresh=[Covered(50, 90)], older=[Covered(5, 40), Covered(45, 51)]))
    assert (look.first, look.second, look.window) == ([Covered(45, 90)], [Covered(5, 40)], None)


def test_what_was_bad_comes_before_what_is_fresh_and_that_before_a_second_look() -> None:
    much = 10 * RECORDS_IN_ALL
    look = _look(Unverified([Covered(7, 9)], [Covered(much, much + 100)], [Covered(0, much)], Covered(much // 2, much)))
    end = (RECORDS_IN_ALL - 102) // 4
    # The oldest range continues the bad ones, the newest continues the fresh ones.
    assert look.first == [Covered(0, end), Covered(much - end, much + 100)]
    assert look.second == [look.window], "nothing else needs the budget"
    assert look.window == Covered(much // 2, much // 2 + RECORDS_IN_ALL - 102 - 2 * end)


@pytest.mark.parametrize("bad", [[], [Covered(0, 10**7)]])
def test_a_quarter_is_for_the_second_look_however_much_is_fresh(bad: list[Covered]) -> None:
    look = _look(Unverified(bad, [Covered(2 * 10**7, 10**8)], [Covered(0, 2 * 10**7)]))
    assert look.window is not None
    assert size([look.window]) == RECORDS_IN_ALL // 8, "half of that quarter; its other half is for both ends"


def test_a_budget_that_time_did_not_suffice_for_is_cut_down_and_grows_again() -> None:
    assert next_budget(None, RECORDS_IN_ALL, ran_out=False) == RECORDS_IN_ALL
    small = next_budget(None, 30_000, ran_out=True)
    assert small == 30_000
    look = looks({"p": Unverified(fresh=[Covered(0, 10**7)])}, small, seed=1)["p"]
    assert size(look.first) <= small
    assert next_budget(small, small, ran_out=False) == 60_000
    assert next_budget(small, 0, ran_out=True) == LEAST_PER_PARTITION, "so much is always reached"


@given(st.lists(st.integers(0, 50), max_size=9), st.integers(0, 200))
def test_shares_are_fair(demands: list[int], budget: int) -> None:
    given_ = fair_shares(demands, budget)
    assert sum(given_) <= budget
    assert all(got <= demand for got, demand in zip(given_, demands, strict=True))
    short = [got for got, demand in zip(given_, demands, strict=True) if got < demand]
    if short:
        assert min(short) >= max(given_) - 1, "who does not get all gets as much as anybody"
        assert sum(given_) == budget, "nothing is left over"


def test_near_ranges_are_read_as_one() -> None:
    assert joined([(50, 60), (0, 10), (11, 20)], gap=5) == [(0, 20), (50, 60)]
