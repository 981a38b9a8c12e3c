"""The fold of mapping records: the same answer however the records are cut into builds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.control.mapping_records import MappedPartition, MappingRecord
from k2k_assets.core.runs import Run, ordered_and_disjoint
from k2k_assets.mapping.algebra.fold import Covered, LateRecord, PartitionMapping, Target, fold

_TARGET = Target("t", "tid", 0)


def _record(order: tuple[int, int], covered: tuple[int, int], runs: list[tuple[int, int, int]]) -> MappingRecord:
    target = MappedPartition(*_TARGET, tuple(Run(*run) for run in runs))
    generation, sequence = order
    return MappingRecord("g", "s", 0, "p", "c", "sid", generation, 0, sequence, 0, *covered, (target,))


def test_adjacent_records_become_one_run_and_one_range() -> None:
    mapping = fold(PartitionMapping(), [_record((1, 1), (0, 5), [(0, 10, 5)]), _record((1, 2), (5, 9), [(5, 15, 3)])])
    assert mapping.runs == {_TARGET: [Run(0, 10, 8)]}
    assert mapping.covered == [Covered(0, 9)]


def test_a_recopy_cancels_what_was_mapped_from_its_start() -> None:
    first = [_record((1, 1), (0, 9), [(0, 10, 9)]), _record((1, 2), (9, 12), [(9, 20, 3)])]
    mapping = fold(fold(PartitionMapping(), first), [_record((2, 0), (7, 10), [(7, 40, 3)])])
    assert mapping.runs == {_TARGET: [Run(0, 10, 7), Run(7, 40, 3)]}
    assert mapping.covered == [Covered(0, 10)]


def test_order_is_by_generation_and_sequence_not_by_arrival() -> None:
    late_writer = _record((1, 9), (0, 9), [(0, 10, 9)])
    successor = _record((2, 0), (4, 6), [(4, 30, 2)])
    mapping = fold(PartitionMapping(), [successor, late_writer])
    assert mapping.runs == {_TARGET: [Run(0, 10, 4), Run(4, 30, 2)]}
    with pytest.raises(LateRecord):
        fold(fold(PartitionMapping(), [successor]), [late_writer])


def test_a_missing_record_leaves_a_hole() -> None:
    mapping = fold(PartitionMapping(), [_record((1, 1), (0, 5), [(0, 0, 5)]), _record((1, 3), (8, 9), [(8, 9, 1)])])
    assert mapping.covered == [Covered(0, 5), Covered(8, 9)]


def test_a_range_of_which_nothing_was_copied_is_covered() -> None:
    mapping = fold(PartitionMapping(), [_record((1, 1), (0, 5), [])])
    assert (mapping.runs, mapping.covered) == ({}, [Covered(0, 5)])


def test_a_range_that_was_skipped_by_hand_is_known_until_it_is_copied_after_all() -> None:
    by_hand = [replace(_record((n, 1), covered, []), override="anna") for n, covered in ((2, (5, 8)), (3, (8, 9)))]
    mapping = fold(PartitionMapping(), [_record((1, 1), (0, 5), [(0, 0, 5)]), *by_hand])
    assert (mapping.covered, mapping.skipped) == ([Covered(0, 9)], [Covered(5, 9)])
    fold(mapping, [replace(_record((4, 1), (7, 7), []), override="anna"), _record((5, 1), (7, 10), [(7, 6, 3)])])
    assert (mapping.covered, mapping.skipped) == ([Covered(0, 10)], [Covered(5, 7)])


@st.composite
def _histories(draw: st.DrawFn) -> list[MappingRecord]:
    position, target, records = 0, 0, []
    for number in range(draw(st.integers(1, 12))):
        if draw(st.booleans()) and draw(st.booleans()):
            position = draw(st.integers(0, position))
        length = draw(st.integers(0, 6))
        skipped = draw(st.integers(0, length))
        runs = [(position + skipped, target, length - skipped)] if skipped < length else []
        records.append(_record((number // 4, number), (position, position + length), runs))
        position, target = position + length, target + length + draw(st.integers(0, 2))
    return records


@given(_histories(), st.data())
def test_incremental_folds_equal_one_fold(records: list[MappingRecord], data: st.DataObject) -> None:
    whole = fold(PartitionMapping(), records)
    cut = data.draw(st.integers(0, len(records)))
    parts = fold(fold(PartitionMapping(), records[:cut]), records[cut:])
    assert parts == whole
    assert all(ordered_and_disjoint(runs) for runs in whole.runs.values())


@given(_histories())
def test_each_offset_maps_to_its_newest_copy(records: list[MappingRecord]) -> None:
    newest: dict[int, int] = {}
    for record in records:
        newest = {s: t for s, t in newest.items() if s < record.covered_from}
        newest.update(
            (r.source_start + i, r.target_start + i) for m in record.targets for r in m.runs for i in range(r.count)
        )
    mapping = fold(PartitionMapping(), records)
    assert newest == {
        r.source_start + i: r.target_start + i for runs in mapping.runs.values() for r in runs for i in range(r.count)
    }
