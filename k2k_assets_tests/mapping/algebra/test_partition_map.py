"""The map of a source partition: built from a fold, compared by content."""

from __future__ import annotations

import pytest

from k2k_assets.core.runs import Run
from k2k_assets.mapping.algebra.fold import Covered, PartitionMapping
from k2k_assets.mapping.algebra.partition_map import NO_RUNS, PartitionMap, RunTable, SourcePartition
from k2k_assets_tests.support.memory.offset_model import target

RUNS = [Run(0, 5, 4), Run(6, 10, 3)]
SOURCE = SourcePartition("c", "s", "sid", 3)


def test_a_table_holds_the_runs_it_was_made_of() -> None:
    table = RunTable.of(RUNS)
    assert list(table) == RUNS
    assert (len(table), table.source_end, table.target_end) == (2, 9, 13)
    assert (len(NO_RUNS), list(NO_RUNS)) == (0, [])


def test_tables_are_equal_by_content_and_no_keys() -> None:
    assert RunTable.of(RUNS) == RunTable.of(RUNS)
    assert RunTable.of(RUNS) != RunTable.of([RUNS[0], Run(6, 10, 4)])
    assert RunTable.of(RUNS) != NO_RUNS
    assert RunTable.of(RUNS) != RUNS
    with pytest.raises(TypeError):
        hash(RunTable.of(RUNS))


def test_a_map_does_not_follow_the_fold_that_it_was_made_of() -> None:
    fold = PartitionMapping({target(0): list(RUNS), target(1): []}, [Covered(0, 9)])
    mapping = PartitionMap.of(SOURCE, 0, fold)
    fold.covered.append(Covered(12, 13))
    fold.runs[target(0)].append(Run(12, 20, 1))
    assert mapping == PartitionMap(SOURCE, 0, (Covered(0, 9),), {target(0): RunTable.of(RUNS)})
    assert str(mapping.source) == "s-3"


@pytest.mark.parametrize(("began", "expected"), [(None, False), (2, False), (3, True), (9, True)])
def test_from_the_beginning(began: int | None, expected: bool) -> None:
    """A map knows all that was copied only if it covers the position at which copying began."""
    assert PartitionMap(SOURCE, began, (Covered(3, 9),), {}).from_the_beginning is expected
    assert not PartitionMap(SOURCE, began, (), {}).from_the_beginning


def test_what_was_copied_beyond_the_coverage_is_marked() -> None:
    mapping = PartitionMap(SOURCE, 0, (Covered(0, 9),), {})
    assert mapping.reaching(9) is mapping
    assert mapping.reaching(12).covered == (Covered(0, 9), Covered(12, 12))
    assert PartitionMap(SOURCE, 0, (), {}).reaching(0).covered == (Covered(0, 0),)
    nothing = PartitionMap(SOURCE, 5, (), {})
    assert nothing.reaching(5).covered == (Covered(5, 5),)
    assert nothing.reaching(5).from_the_beginning
    assert not nothing.reaching(6).from_the_beginning
