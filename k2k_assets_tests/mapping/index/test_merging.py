"""The policy of merging: few segments, bounded work, and with a retention none that spans too much time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.mapping.index.merging import (
    MOST_OF_A_TIER,
    SEALED_RUNS,
    SPANS_OF_RETENTION,
    Ageing,
    Candidate,
    to_merge,
)


def _after(segments: list[Candidate], ageing: Ageing | None = None) -> tuple[list[Candidate], int]:
    """The segments after an update, and how many runs it rewrote."""
    names = to_merge(segments, ageing)
    if not names:
        return segments, 0
    first = [segment.name for segment in segments].index(names[0])
    group = segments[first : first + len(names)]
    assert [segment.name for segment in group] == names, "only neighbours are merged"
    runs, since, until = sum(s.runs for s in group), min(s.since for s in group), max(s.until for s in group)
    return [*segments[:first], Candidate(names[0], runs, since, until), *segments[first + len(names) :]], runs


@pytest.mark.parametrize("size", [0, 1, 1000, 36_000, 400_000, 5_000_000])
def test_updates_of_one_size(size: int) -> None:
    """However large each update is: few segments, bounded work an update, each run written a few times."""
    segments: list[Candidate] = []
    rewritten, updates = 0, 3000
    for number in range(updates):
        segments, runs = _after([*segments, Candidate(str(number), size, number, number)])
        assert runs < 2 * SEALED_RUNS
        rewritten += runs
        unsealed = [segment for segment in segments if segment.runs < SEALED_RUNS]
        assert len(unsealed) <= 3 * MOST_OF_A_TIER
    assert sum(segment.runs for segment in segments) == updates * size
    assert len(segments) - len(unsealed) <= updates * size / SEALED_RUNS
    # About once for each tier; in the lowest one more often, which is cheap.
    assert rewritten / updates <= 4 * size + 10_000


@given(st.lists(st.integers(0, 2 * SEALED_RUNS), max_size=150))
def test_updates_of_any_size(sizes: list[int]) -> None:
    """Few unsealed segments and bounded work also for updates of different sizes."""
    segments: list[Candidate] = []
    for number, size in enumerate(sizes):
        segments, runs = _after([*segments, Candidate(str(number), size, 0, 0)])
        assert runs < 2 * SEALED_RUNS + SEALED_RUNS
        unsealed = sum(segment.runs < SEALED_RUNS for segment in segments)
        assert unsealed <= 4 * MOST_OF_A_TIER + (len(segments) - unsealed)
    assert sum(segment.runs for segment in segments) == sum(sizes)


def test_small_ones_before_one_that_is_sealed_as_it_comes_become_one() -> None:
    small = [Candidate(str(number), 10, number, number) for number in range(3)]
    big = [Candidate(name, SEALED_RUNS, 3, 3) for name in ("before", "after")]
    assert to_merge([big[0], *small, big[1]]) == ["0", "1", "2"]
    assert to_merge([big[0], small[0], big[1]]) == []


def test_with_a_retention_no_merged_segment_spans_more_than_its_share() -> None:
    retention = 800
    segments: list[Candidate] = []
    for now in range(5000):
        ageing = Ageing.of(now, retention)
        # One in a hundred is kept although it has expired, because it has the newest records of an idle partition.
        segments = [s for s in segments if s.until >= ageing.expired or s.name.endswith("00")]
        segments, _ = _after([*segments, Candidate(str(now), 10, now, now)], ageing)
        alive = [segment for segment in segments if segment.until >= ageing.expired]
        assert all(s.until - max(s.since, ageing.expired) <= retention // SPANS_OF_RETENTION for s in alive)
        assert len(segments) <= 5 * MOST_OF_A_TIER


def test_a_sealed_segment_is_left_alone() -> None:
    small = Candidate("small", 1, 0, 0)
    segments = [replace(small, name=str(n)) for n in range(MOST_OF_A_TIER)]
    sealed = replace(small, name="sealed", runs=SEALED_RUNS)
    assert to_merge([sealed, *segments]) == [segment.name for segment in segments]
    assert to_merge([*segments[:1], sealed]) == []
