"""A map whose target has lost copies tells of all positions before them what it told, and of none behind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.runs import Run
from k2k_assets.mapping.algebra.fold import Covered, nowhere
from k2k_assets.mapping.algebra.lost_copies import first_lost, without_lost, without_overlaid
from k2k_assets.mapping.algebra.partition_map import NO_RUNS, PartitionMap, RunTable, SourcePartition
from k2k_assets.mapping.algebra.run_tables import end_of_read, joined
from k2k_assets.mapping.algebra.translate import TranslationState, translate, translate_back
from k2k_assets_tests.support.memory.offset_model import target

SOURCE = SourcePartition("c", "s", "sid", 0)
UNKNOWN = TranslationState.UNKNOWN


@st.composite
def maps(draw: st.DrawFn) -> PartitionMap:
    """Maps of one source partition, copied without a break from offset 0 on."""
    runs, at, to = [], 0, 0
    for gap, marker, count in draw(st.lists(st.tuples(*(st.integers(0, 3),) * 2, st.integers(1, 4)), min_size=1)):
        at, to = at + gap, to + marker
        runs.append(Run(at, to, count))
        at, to = at + count, to + count
    end = at + draw(st.integers(0, 3))
    return PartitionMap(SOURCE, 0, (Covered(0, end),), {target(0): RunTable.of(runs)}, log_start=0)


@given(maps(), st.integers(0, 40))
def test_what_lies_before_the_first_lost_copy_is_answered_as_before(mapping: PartitionMap, cut: int) -> None:
    runs = mapping.runs[target(0)]
    kept = without_lost(mapping, {target(0): cut}.get)
    lost = [run.source_start + n for run in runs for n in range(run.count) if run.target_start + n >= cut]
    positions = np.arange(mapping.covered_end + 3)
    before, after = (translate(each, target(0), positions, floor=0, alone=True) for each in (mapping, kept))
    # A position whose next record is lost: all from the one behind the last record that is left on.
    last = max(
        (at for run in runs for at in range(run.source_start, run.source_start + run.count) if at not in lost),
        default=-1,
    )
    reached = positions > last if lost else np.zeros(len(positions), dtype=np.bool_)
    assert (after.states[reached] == UNKNOWN).all()
    assert (after.states[~reached] == before.states[~reached]).all()
    assert (after.offsets[~reached] == before.offsets[~reached]).all()


@given(maps(), st.integers(0, 40))
def test_back_from_behind_the_cut_nothing_is_known(mapping: PartitionMap, cut: int) -> None:
    kept = without_lost(mapping, {target(0): cut}.get)
    if kept is mapping:
        return
    back = translate_back(kept, target(0), np.arange(cut + 1, cut + 50), mapped_to=cut + 50)
    assert set(back.states.tolist()) <= {UNKNOWN, TranslationState.NOT_REPLICATED}


def test_other_target_partitions_and_what_was_left_out_end_there_too() -> None:
    mapping = PartitionMap(
        SOURCE,
        0,
        (Covered(0, 20),),
        {target(0): RunTable.of([Run(0, 0, 5), Run(10, 5, 5)]), target(1): RunTable.of([Run(5, 0, 5), Run(15, 5, 5)])},
        dropped={"mask": RunTable.of([Run(3, 3, 1), Run(18, 18, 1)])},
    )
    kept = without_lost(mapping, {target(0): 7}.get)
    assert kept.covered == (Covered(0, 12), Covered(20, 20))
    assert kept.runs == {
        target(0): RunTable.of([Run(0, 0, 5), Run(10, 5, 2)]),
        target(1): RunTable.of([Run(5, 0, 5)]),
    }
    assert kept.dropped == {"mask": RunTable.of([Run(3, 3, 1)])}
    assert without_lost(mapping, {target(0): 10, target(2): 0}.get) is mapping


@pytest.mark.parametrize(("cut", "expected"), [(0, 6), (11, 6), (12, None), (13, None)])
def test_runs_that_are_on_disk_are_lost_from_where_they_were_read_to(cut: int, expected: int | None) -> None:
    """Where only the end of the runs below is known: records up to source offset 6 lie before target offset 12."""
    assert first_lost(end_of_read(6, 12), cut) == expected
    assert first_lost(NO_RUNS, cut) is None


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 30)), min_size=1, max_size=6))
def test_copies_in_whose_places_later_ones_lie_tell_nothing(copies: list[tuple[int, int]]) -> None:
    """A target that is cut off again and again, and nobody notices it: the model is its log, offset by offset."""
    log: dict[int, int] = {}
    runs, source, end = [], 0, 0
    for count, cut in copies:
        end = min(end, cut)
        log = {at: copy for at, copy in log.items() if at < end}
        runs.append(Run(source, end, count))
        for n in range(count):
            log[end + n] = source + n
        source, end = source + count, end + count
    covered, tables = without_overlaid((Covered(0, source),), {target(0): RunTable.of(runs)})
    known = {run.source_start + n: run.target_start + n for run in tables[target(0)] for n in range(run.count)}
    there = {copy: at for at, copy in log.items()}
    assert known == there
    is_covered = {offset for each in covered for offset in range(each.start, each.end)}
    assert there.keys() <= is_covered
    answers = translate(
        PartitionMap(SOURCE, 0, covered, tables, log_start=0), target(0), np.arange(source + 1), 0, True
    )
    for position, (offset, state) in enumerate(zip(answers.offsets, answers.states, strict=True)):
        unread = min((offset for offset in there if offset >= position), default=None)
        all_there = all(n in there for n in range(position, source if unread is None else unread))
        if not all_there:
            assert state == UNKNOWN
        elif unread is not None:
            assert (offset, state) == (there[unread], TranslationState.EXACT)


def test_what_was_left_out_lies_nowhere() -> None:
    tables = {nowhere("mask"): RunTable.of([Run(5, 5, 2), Run(0, 0, 1)])}
    assert without_overlaid((Covered(0, 9),), tables) == ((Covered(0, 9),), tables)


def test_the_end_of_runs_on_disk_is_no_run_that_could_be_lost() -> None:
    """Of the runs below source offset 6 only their end is known; the target was cut below it since."""
    tables = {target(0): joined(end_of_read(6, 100), RunTable.of([Run(6, 40, 5)]))}
    covered, kept = without_overlaid((Covered(6, 11),), tables)
    answers = translate(PartitionMap(SOURCE, 0, covered, kept, log_start=0), target(0), np.arange(6, 11), 0, True)
    assert answers.offsets.tolist() == [40, 41, 42, 43, 44]
