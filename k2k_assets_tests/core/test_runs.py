"""The algebra of runs, compared with brute force over pairs of offsets."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.runs import Run, cancel_from, merge, ordered_and_disjoint, runs_of, runs_of_stretch

Pair = tuple[int, int]


def pairs_of(runs: list[Run]) -> list[Pair]:
    return [(run.source_start + i, run.target_start + i) for run in runs for i in range(run.count)]


@st.composite
def rising_pairs(draw: st.DrawFn) -> list[Pair]:
    """What a copy makes: both sides rise, with gaps on either."""
    steps = draw(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), max_size=40))
    source, target = draw(st.integers(0, 2**40)), draw(st.integers(0, 2**40))
    result = []
    for s, t in steps:
        source, target = source + s, target + t
        result.append((source, target))
    return result


@st.composite
def split_runs(draw: st.DrawFn) -> list[Run]:
    """Ordered runs, some of them adjacent on both sides: not merged."""
    runs = []
    for run in runs_of(*columns(draw(rising_pairs()))):
        at = draw(st.integers(0, run.count))
        pieces = [
            Run(run.source_start, run.target_start, at),
            Run(run.source_start + at, run.target_start + at, run.count - at),
        ]
        runs += [piece for piece in pieces if piece.count]
    return runs


def columns(pairs: list[Pair]) -> tuple[list[int], list[int]]:
    return [s for s, _ in pairs], [t for _, t in pairs]


@given(rising_pairs())
def test_folding_keeps_the_pairs_in_the_fewest_runs(pairs: list[Pair]) -> None:
    runs = runs_of(*columns(pairs))

    breaks = sum(b != (a[0] + 1, a[1] + 1) for a, b in pairwise(pairs))
    assert pairs_of(runs) == pairs
    assert len(runs) == (breaks + 1 if pairs else 0)
    assert ordered_and_disjoint(runs)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30))
def test_folding_keeps_pairs_that_do_not_even_rise(pairs: list[Pair]) -> None:
    assert pairs_of(runs_of(*columns(pairs))) == pairs


def test_folding_refuses_columns_of_different_lengths() -> None:
    with pytest.raises(ValueError, match="zip"):
        runs_of([1, 2], [1])


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=40, unique=True), st.integers(0, 2**62))
def test_a_stretch_folds_like_its_pairs(offsets: list[int], target: int) -> None:
    offsets.sort()
    assert runs_of_stretch(offsets, target) == runs_of(offsets, list(range(target, target + len(offsets))))


@given(split_runs())
def test_merging_keeps_the_pairs_and_leaves_nothing_to_join(runs: list[Run]) -> None:
    merged = merge(runs)

    assert pairs_of(merged) == pairs_of(runs)
    assert merged == runs_of(*columns(pairs_of(runs)))
    assert merge(merged) == merged
    assert merge(tuple(run) for run in runs[:1]) == merge(runs[:1])  # type: ignore[misc]  # plain triples, as of JSON


@given(split_runs(), st.data())
def test_cancelling_drops_exactly_the_pairs_from_there_on(runs: list[Run], data: st.DataObject) -> None:
    low, high = (runs[0].source_start - 2, runs[-1].source_end + 2) if runs else (0, 3)
    at = data.draw(st.integers(low, high))

    kept = cancel_from(runs, at)

    assert pairs_of(kept) == [pair for pair in pairs_of(runs) if pair[0] < at]
    assert ordered_and_disjoint(kept)


@pytest.mark.parametrize(
    ("runs", "answer"),
    [
        ([], True),
        ([Run(0, 5, 3), Run(3, 8, 1)], True),
        ([Run(0, 5, 3), Run(9, 9, 1)], True),
        ([Run(0, 5, 0)], False),
        ([Run(0, 5, 3), Run(2, 9, 1)], False),
        ([Run(0, 5, 3), Run(3, 7, 1)], False),
        ([Run(5, 5, 1), Run(0, 9, 1)], False),
        ([Run(0, 9, 1), Run(5, 5, 1)], False),
    ],
)
def test_order(runs: list[Run], answer: bool) -> None:
    """Runs follow each other only if both offsets rise and no two overlap on either side."""
    assert ordered_and_disjoint(runs) is answer
