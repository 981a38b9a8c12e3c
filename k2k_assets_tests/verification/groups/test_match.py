"""S and R by content for each kind of wrong position, and for right ones that look wrong."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.verification.groups.match import Match, RecordWindow, Seen, Sides, match

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


def _window(records: Sequence[str], at: int, first: int = 0, step: int = 1, **rest: bool) -> RecordWindow:
    """Records at offsets `first`, `first + step`, ...; the position is that of record number `at`."""
    seen = [Seen(first + step * index, record.encode()) for index, record in enumerate(records)]
    return RecordWindow(first + step * at, tuple(seen[:at]), tuple(seen[at:]), **rest)


def _alone(source: RecordWindow, target: RecordWindow, exactly_once: bool = True) -> Match:
    return match(Sides({A: source}, target, True, exactly_once))


RECORDS = "abcdefghij"


@pytest.mark.parametrize("at", range(11))
def test_the_same_record_is_exact(at: int) -> None:
    assert _alone(_window(RECORDS, at), _window(RECORDS, at, first=100, step=2)) == Match(compared=10)


@pytest.mark.parametrize("records", [RECORDS, "ab" * 5, "aab" * 4], ids=["unique", "alternating", "repeated"])
@pytest.mark.parametrize("at", range(1, 9))
def test_one_off_is_found_in_both_directions(records: str, at: int) -> None:
    source = _window(records, at)
    late, early = _alone(source, _window(records, at + 1)), _alone(source, _window(records, at - 1))
    assert (late.skipped, late.read_again, late.first) == (1, 0, (A, at))
    assert (early.skipped, early.read_again, early.first) == (0, 1, (A, at - 1))


@given(st.lists(st.integers(0, 3), min_size=6, max_size=40, unique=False), st.data())
def test_off_by_any_number(contents: list[int], data: st.DataObject) -> None:
    """Records that say which they are: every shift is counted as it is."""
    records = [f"{index}-{content}" for index, content in enumerate(contents)]
    at, other = (data.draw(st.integers(0, len(records))) for _ in range(2))
    found = _alone(_window(records, at), _window(records, other))
    assert (found.skipped, found.read_again) == (max(0, other - at), max(0, at - other))
    assert not found.different


def test_equal_records_everywhere_prove_nothing_wrong() -> None:
    assert _alone(_window("aaaa", 2), _window("aaaa", 2)) == Match(compared=4)


def test_a_copy_that_lags_is_exact() -> None:
    assert _alone(_window(RECORDS, 4), _window(RECORDS[:6], 4)) == Match(compared=6)
    assert _alone(_window(RECORDS, 6), _window(RECORDS[:6], 6)) == Match(compared=6)


def test_nothing_on_either_side() -> None:
    assert _alone(_window("", 0), _window("", 0)) == Match()
    assert _alone(_window(RECORDS, 0), _window("", 0)) == Match()


def test_records_that_have_nothing_in_common() -> None:
    assert _alone(_window(RECORDS, 4), _window("zyxwvu", 3)).different


def test_what_was_deleted_or_compacted_away_is_no_fault() -> None:
    kept_here = _window("acdfghj", 3, whole=False)
    assert not (found := _alone(kept_here, _window("abdefgij", 4))).skipped
    assert (found.read_again, found.different, found.compared) == (0, False, 5)
    assert _alone(_window("fgh", 0, first=50, whole=False), _window(RECORDS, 2)) == Match(compared=3)


def test_off_by_one_shows_in_a_compacted_topic_too() -> None:
    source = _window("acdfghj", 3, whole=False)
    assert _alone(source, _window("abdfgij", 4)).skipped == 1
    assert _alone(source, _window("abdfgij", 2)).read_again == 1


def test_a_record_that_was_lost_is_skipped() -> None:
    found = _alone(_window(RECORDS, 4), _window("abcdefhij", 4))
    assert (found.skipped, found.first) == (1, (A, 6))


def test_a_foreign_record_is_no_fault() -> None:
    assert not (found := _alone(_window(RECORDS, 4), _window("abcdeXfghij", 4))).skipped
    assert (found.read_again, found.different) == (0, False)


def test_a_second_copy_of_an_unread_record_is_not_read_again() -> None:
    """At least once: e to h were copied twice, and the second copies are mapped."""
    found = _alone(_window("abcdefgh", 6), _window("abcdefghefgh", 10), exactly_once=False)
    assert (found.skipped, found.read_again) == (0, 0)
    late = _alone(_window("abcdefgh", 6), _window("abcdefghefgh", 11), exactly_once=False)
    assert (late.skipped, late.read_again, late.first) == (1, 0, (A, 6))
    early = _alone(_window("abcdefgh", 6), _window("abcdefghefgh", 9), exactly_once=False)
    assert (early.skipped, early.read_again, early.first) == (0, 1, (A, 5))


def test_at_least_once_what_may_lie_further_on_is_not_called_skipped() -> None:
    target = _window("abcdefgh", 8, ended=False)
    assert _alone(_window("abcdefgh", 6, whole=False), target, exactly_once=False).skipped == 0
    assert _alone(_window("abcdefgh", 6, whole=False), _window("abcdefgh", 8), exactly_once=False).skipped == 2


def test_of_several_sources_each_has_its_own_position() -> None:
    sources = {A: _window(["a0", "a1", "a2"], 1), B: _window(["b0", "b1", "b2"], 2)}
    mixed = ["a0", "b0", "a1", "b1", "a2", "b2"]

    def at(position: int) -> Match:
        return match(Sides(sources, _window(mixed, position), alone=False, exactly_once=True))

    assert at(2) == Match(compared=6, read_again=1, first=(B, 1)), "b1 lies among unread records"
    assert (at(3).skipped, at(3).first) == (1, (A, 1))
    assert (at(1).skipped, at(1).read_again) == (0, 2)
