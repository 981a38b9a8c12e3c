"""What parts prove of a piece: no offset and no pair of neighbouring copies falls between the two comparisons."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.algebra.fold import Covered
from k2k_assets.verification.content.by_batches import stretches
from k2k_assets.verification.content.by_batches.proven_parts import ProvenPart
from k2k_assets.verification.content.by_batches.stretches import can_be_proven, cut, proven_by
from k2k_assets.verification.content.pieces import ComparedPiece
from k2k_assets.verification.content.verified import outside
from k2k_assets_tests.support.suite.properties import examples

TP = TopicPartition("orders", 0)
PIECE = ComparedPiece("orders", 0, 0, 60, "read_committed", headers=True, timestamps=True, noted=True, alone=True)


def _part(start: int, end: int, first: int, last: int, doubt: str = "", doubt_end: int = 0) -> ProvenPart:
    return ProvenPart(*TP, start, end, first, last, int(last >= 0), 0, 100, 1000, doubt, doubt_end)


@st.composite
def _parts(draw: st.DrawFn) -> tuple[list[int], list[ProvenPart]]:
    """Mapped offsets, and parts as a prover makes them: of any stretches, as far as it got."""
    mapped = sorted(draw(st.sets(st.integers(0, 59), min_size=1)))
    parts = []
    for start, end in draw(st.lists(st.tuples(st.integers(0, 59), st.integers(1, 60)), max_size=5)):
        within = [offset for offset in mapped if start <= offset < end]
        if not within:
            continue
        count = draw(st.integers(0, len(within)))
        last = within[count - 1] if count else -1
        is_complete = count == len(within) and draw(st.booleans())
        behind = end if is_complete else max(start, last + 1)
        parts.append(_part(start, behind, within[0] if count else -1, last))
    return mapped, parts


@given(found=_parts())
@examples(500)
def test_whatever_is_not_proven_is_left_and_so_is_what_lies_between_two_copies(
    found: tuple[list[int], list[ProvenPart]],
) -> None:
    mapped, parts = found
    proven = proven_by([PIECE], parts).ranges().get(TP, ())
    left = outside([Covered(0, 60)], proven)
    good = [part for part in parts if part.records]
    for offset in range(60):
        is_left = any(start <= offset < end for start, end in left)
        assert is_left or any(part.start <= offset < part.end for part in good)
    for one, other in pairwise(mapped):
        is_left = any(start <= one and other < end for start, end in left)
        assert is_left or any(part.first <= one and other <= part.last for part in good), (one, other)


def test_stretches_that_share_a_record_are_one() -> None:
    parts = [_part(0, 20, 0, 19), _part(15, 60, 15, 59)]
    assert proven_by([PIECE], parts).ranges() == {TP: [Covered(0, 60)]}


def test_stretches_that_only_touch_leave_the_records_on_both_sides_to_be_compared_once_more() -> None:
    parts = [_part(0, 20, 0, 17), _part(20, 60, 22, 59)]
    assert proven_by([PIECE], parts).ranges() == {TP: [Covered(0, 17), Covered(23, 60)]}


def test_a_doubt_is_left_with_the_proven_records_on_both_of_its_sides() -> None:
    parts = [_part(0, 20, 0, 19, "timestamps differ", 40), _part(40, 60, 40, 59)]
    proven = proven_by([PIECE], parts)
    assert proven.ranges() == {TP: [Covered(0, 19), Covered(41, 60)]}
    assert proven.doubts == {TP: [Covered(19, 41)]}
    assert (proven.why, proven.bytes_, proven.seconds) == ("orders-0@20: timestamps differ", 200, 2.0)


def test_at_an_end_behind_which_there_is_more_the_last_record_is_left_to_be_compared_with_the_next_one() -> None:
    parts = [_part(0, 60, 2, 57)]
    assert proven_by([PIECE], parts, {TP: {60}}).ranges() == {TP: [Covered(0, 57)]}
    assert proven_by([PIECE], parts, {TP: {0, 60}}).ranges() == {TP: [Covered(3, 57)]}


def test_where_nothing_could_be_tried_it_says_so() -> None:
    assert proven_by([PIECE], []).why == "no time was left for it, or no record is mapped there"
    assert proven_by([PIECE], [_part(0, 60, 0, 59)]).why == ""


def test_a_part_of_another_piece_proves_nothing_of_this_one() -> None:
    behind = PIECE._replace(start=60, end=80)
    assert proven_by([PIECE, behind], [_part(60, 80, 60, 79)]).ranges() == {TP: [Covered(60, 80)]}


def test_what_was_to_be_changed_cannot_be_proven_by_equal_bytes() -> None:
    assert can_be_proven(PIECE)
    assert can_be_proven(PIECE._replace(headers=False, timestamps=False))
    for piece in (
        PIECE._replace(schemas="value"),
        PIECE._replace(added="some"),
        PIECE._replace(drops="some"),
        PIECE._replace(transform="some"),
        PIECE._replace(isolation="read_uncommitted"),
    ):
        assert not can_be_proven(piece)


def test_pieces_are_cut_into_overlapping_stretches_up_to_the_last_stable_offset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("_LEAST", 20), ("_MOST", 30), ("_OVERLAP", 5)):
        monkeypatch.setattr(stretches, name, value)
    long = PIECE._replace(end=100)
    found = [(each.start, each.end) for each in cut([long, long._replace(added="some")], {TP: 90})]
    assert found == [(0, 20), (15, 40), (35, 60), (55, 80), (75, 90)]
    assert cut([long], {}) == []
