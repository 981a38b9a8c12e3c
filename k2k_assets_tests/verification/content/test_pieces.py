"""Ranges are split where the settings of the copy change, and where a position was set by hand."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.index.portions import SettingsRange
from k2k_assets.pipeline.sections.added_headers import AddedHeader
from k2k_assets.verification.content.expected_headers import ClusterIds, ExpectedHeaders
from k2k_assets.verification.content.pieces import CopiedRange, pieces
from k2k_assets.verification.content.sampling import Stretch

IDS = ClusterIds("a", "b")
TODAY = CopySettings("read_committed", headers=True, timestamps=True, alone=True)
BEFORE = replace(TODAY, headers=False)
KNOWN = {"a": BEFORE, "b": TODAY}
TP = TopicPartition("orders", 0)


def _pieces(copied: CopiedRange, start: int = 100, end: int = 200) -> list[tuple[object, ...]]:
    found = pieces([Stretch(*TP, start, end)], {TP: copied}, KNOWN, TODAY, IDS).found
    return [(piece.start, piece.end, piece.headers, piece.noted, piece.alone) for piece in found]


def test_each_range_is_judged_by_its_own_settings() -> None:
    copied = CopiedRange((SettingsRange(100, 140, "a"), SettingsRange(140, 300, "b")), set_at=(170,), one_to_one=True)
    assert _pieces(copied) == [
        (100, 140, False, True, True),
        (140, 170, True, True, True),
        (170, 200, True, True, True),
    ]


def test_what_was_not_noted_has_the_settings_of_today_and_may_hold_anything() -> None:
    assert _pieces(CopiedRange((SettingsRange(150, 160, "b"),), one_to_one=True)) == [
        (100, 150, True, False, False),
        (150, 160, True, True, True),
        (160, 200, True, False, False),
    ]


def test_where_several_feed_a_partition_others_are_expected() -> None:
    assert _pieces(CopiedRange((SettingsRange(0, 500, "b"),))) == [(100, 200, True, True, False)]


def test_headers_that_were_added_are_compared_even_if_the_records_own_were_dropped() -> None:
    added = (AddedHeader("o", "offset"),)
    known = {"a": replace(BEFORE, added=added), "b": TODAY}
    copied = CopiedRange((SettingsRange(0, 150, "a"), SettingsRange(150, 500, "b")))
    found = pieces([Stretch(*TP, 100, 200)], {TP: copied}, known, TODAY, IDS).found
    assert [(piece.start, piece.headers, piece.added) for piece in found] == [
        (100, True, ExpectedHeaders(False, added).word),
        (150, True, ""),
    ]


def test_settings_that_nobody_knows_are_left_out_and_counted() -> None:
    copied = CopiedRange((SettingsRange(0, 150, "c"), SettingsRange(150, 500, "b")))
    found = pieces([Stretch(*TP, 100, 200)], {TP: copied}, KNOWN, TODAY, IDS)
    assert ([piece.start for piece in found.found], found.unknown) == ([150], [Stretch(*TP, 100, 150)])


def test_what_is_read_uncommitted_today_was_perhaps_read_committed() -> None:
    today = replace(TODAY, isolation="read_uncommitted")
    found = pieces([Stretch(*TP, 100, 200)], {TP: CopiedRange((SettingsRange(150, 500, "b"),))}, KNOWN, today, IDS)
    assert ([piece.start for piece in found.found], found.unknown) == ([150], [Stretch(*TP, 100, 150)])


@given(st.lists(st.tuples(st.integers(0, 20), st.sampled_from("ab"))), st.lists(st.integers(0, 300)))
def test_the_pieces_are_the_stretch(lengths: list[tuple[int, str]], set_at: list[int]) -> None:
    under, start = [], 90
    for length, settings in lengths:
        if length:
            under.append(SettingsRange(start, start + length, settings))
        start += length + 1
    found = pieces([Stretch(*TP, 100, 200)], {TP: CopiedRange(under, sorted(set_at))}, KNOWN, TODAY, IDS).found
    assert [offset for piece in found for offset in range(piece.start, piece.end)] == list(range(100, 200))
    assert {piece.start for piece in found}.issuperset(at for at in set_at if 100 <= at < 200)
