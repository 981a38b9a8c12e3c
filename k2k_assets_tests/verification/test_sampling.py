"""The sample: within what is covered and still there, with the oldest and the newest."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.verification.sampling import RECORDS_PER_PARTITION, joined, stretches

_TP = TopicPartition("orders", 0)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 99))
def test_stretches_lie_in_the_range_and_hold_both_ends(start: int, length: int, low: int, seed: int) -> None:
    end = start + length
    drawn = stretches({_TP: [(start, end)]}, {_TP: low}, seed)
    first = max(start, low)
    if first >= end:
        assert drawn == []
        return
    assert (drawn[0].start, drawn[-1].end) == (first, end)
    assert all(one.end < other.start for one, other in pairwise(drawn))
    assert all(piece.start < piece.end for piece in drawn)
    assert sum(piece.end - piece.start for piece in drawn) <= RECORDS_PER_PARTITION


def test_what_fits_is_looked_at_as_a_whole() -> None:
    assert [piece[2:] for piece in stretches({_TP: [(5, 50)]}, {}, 1)] == [(5, 50)]


def test_near_ranges_are_read_as_one() -> None:
    assert joined([(50, 60), (0, 10), (11, 20)], gap=5) == [(0, 20), (50, 60)]
