"""What is known of records that stages have left out of a chunk."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.dropped_ranges import DroppedRange
from k2k_assets.core.stops.reasons.unclassified import Unclassified
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.dropped import DroppedRecords
from k2k_assets.transport.rewritten import RewrittenColumns
from k2k_assets_tests.support.memory.fake_records import ListRecords
from k2k_assets_tests.support.suite.properties import examples

SOURCE = TopicPartition("orders", 3)


def chunk_of(*offsets: int, epoch: int | None = 7) -> Chunk:
    return Chunk(SOURCE, ListRecords(list(offsets), epoch=epoch, first_epoch=epoch), "there", 3)


def at(chunk: Chunk) -> list[int]:
    return list(chunk.records.offsets())


def test_a_chunk_without_a_dropped_record_stays_as_it_is() -> None:
    chunk = chunk_of(1, 2)
    records = chunk.records
    chunk.drop([True, True], "marker")
    assert chunk.records is records
    assert chunk.dropped is None


def test_ranges_reach_over_offsets_without_a_record_and_end_at_a_kept_one() -> None:
    chunk = chunk_of(0, 1, 2, 5, 6, 9)
    chunk.drop([True, False, False, False, True, False], "filter")
    assert at(chunk) == [0, 6]
    assert chunk.dropped is not None
    assert chunk.dropped.ranges() == [DroppedRange("filter", 1, 6), DroppedRange("filter", 9, 10)]
    assert (chunk.count, chunk.dropped.count, chunk.end) == (2, 4, 10)


def test_ranges_of_two_rules_are_apart() -> None:
    chunk = chunk_of(0, 1, 2, 3, 4)
    chunk.drop([True, False, True, True, True], "marker")
    chunk.drop([False, False, True, False], "filter")
    assert at(chunk) == [3]
    assert chunk.dropped is not None
    assert chunk.dropped.ranges() == [
        DroppedRange("filter", 0, 1),
        DroppedRange("marker", 1, 2),
        DroppedRange("filter", 2, 3),
        DroppedRange("filter", 4, 5),
    ]


def test_all_of_a_chunk_may_be_dropped() -> None:
    chunk = chunk_of(3, 4, 8)
    chunk.drop([False] * 3, "marker")
    assert (chunk.count, chunk.end) == (0, 9)
    assert chunk.readable() == (chunk, None)
    assert chunk.dropped is not None
    assert chunk.dropped.leader_epoch == 7
    assert chunk.dropped.begins


@pytest.mark.parametrize(
    ("kept", "cut_at", "left", "end"),
    [
        ([True, False, True, True, False], 2, [1, 3], 4),  # nothing dropped behind the cut counts
        ([False, False, True, True, True], 0, [], 3),  # only dropped ones are left
        ([True, True, True, True, False], 1, [1], 2),  # no dropped ones are left
        ([True, True, False, False, True], 2, [1, 2], 5),
    ],
)
def test_a_cut_takes_the_dropped_records_behind_it_away(
    kept: list[bool], cut_at: int, left: list[int], end: int
) -> None:
    chunk = chunk_of(1, 2, 3, 4, 5)
    chunk.drop(kept, "marker")
    reason = Unclassified("unreadable")
    chunk.cut(cut_at, reason)
    assert at(chunk) == left
    assert chunk.end == end
    assert chunk.readable() == (chunk, reason)
    if chunk.dropped is not None:
        assert chunk.dropped.leader_epoch == 7


def test_a_cut_does_not_know_its_epoch_where_the_chunk_has_several() -> None:
    chunk = Chunk(SOURCE, ListRecords([1, 2, 3], first_epoch=6, epoch=7), "there", 3)
    chunk.drop([False, True, True], "marker")
    chunk.cut(1, Unclassified("unreadable"))
    assert chunk.dropped is not None
    assert (chunk.dropped.leader_epoch, chunk.records.leader_epoch) == (None, None)


def test_a_cut_at_the_first_record_leaves_nothing() -> None:
    chunk = chunk_of(1, 2)
    reason = Unclassified("unreadable")
    chunk.cut(0, reason)
    assert chunk.readable() == (None, reason)


def test_new_keys_and_values_go_with_their_records() -> None:
    chunk = chunk_of(1, 2, 3)
    chunk.records = RewrittenColumns(chunk.columns(), [b"a", b"b", None], [b"x", None, b"z"])
    chunk.drop([True, False, True], "filter")
    columns = chunk.columns()
    assert (columns.keys(), columns.values(), columns.size()) == ([b"a", None], [b"x", b"z"], 2)


@examples(100)
@given(st.data())
def test_model_whatever_is_dropped_each_record_is_kept_or_in_one_range_of_its_rule(data: st.DataObject) -> None:
    gaps = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=20))
    offsets = [sum(gaps[: n + 1]) for n in range(len(gaps))]
    dropped, rule_of, kept = DroppedRecords(offsets, 1, 1), dict.fromkeys(offsets, ""), list(offsets)
    for rule in data.draw(st.lists(st.sampled_from(["a", "b", "c"]), max_size=4)):
        stays = data.draw(st.lists(st.booleans(), min_size=len(kept), max_size=len(kept)))
        dropped.add(stays, rule)
        rule_of |= {offset: rule for offset, stay in zip(kept, stays, strict=True) if not stay}
        kept = [offset for offset, stay in zip(kept, stays, strict=True) if stay]
    end = data.draw(st.integers(0, offsets[-1] + 2))
    below = dropped.below(end)
    ranges = below.ranges() if below else []
    in_range = {offset: rule for rule, start, after in ranges for offset in offsets if start <= offset < after}
    assert in_range == {offset: rule for offset, rule in rule_of.items() if rule and offset < end}
    assert all(one.end <= two.start for one, two in pairwise(ranges))
    assert all(start in rule_of and after - 1 in rule_of for _, start, after in ranges)
    assert (below.count if below else 0) == len(in_range)
    assert (below.range_count if below else 0) == len(ranges)
