"""The order in which a content check compares what it has planned."""

from __future__ import annotations

from typing import cast

from k2k_assets.kafka.cluster import Cluster
from k2k_assets.verification.content import check
from k2k_assets.verification.content.comparison import Comparison
from k2k_assets.verification.content.pieces import ComparedPiece
from k2k_assets.verification.content.sides import Side

_NOBODY = Side(cast(Cluster, None), {}, {}, frozenset())


def _piece(start: int, end: int) -> ComparedPiece:
    return ComparedPiece("orders", 0, start, end, "read_committed", True, True, True, True)


def _looks(first: list[ComparedPiece], second: list[ComparedPiece]) -> list[tuple[list[ComparedPiece], float]]:
    return check._looks(Comparison(_NOBODY, _NOBODY, "c", {}, {}, {}, first, second))


def test_a_few_records_are_compared_in_one_job_of_spark() -> None:
    fresh, seen = _piece(100, 200), _piece(0, 100)
    assert _looks([fresh], [seen]) == [([fresh, seen], check.SECONDS)]
    assert _looks([fresh], []) == [([fresh], check.SECONDS)]
    assert _looks([], []) == [([], check.SECONDS)]


def test_of_more_than_a_job_compares_the_fresh_ones_are_left_at_a_time_to_look_at_others_again() -> None:
    fresh, seen = _piece(1_000_000, 2_000_000), _piece(0, 100)
    (first, until), (second, end) = _looks([fresh], [seen])
    assert (first, second) == ([fresh], [seen])
    assert until < end == check.SECONDS
