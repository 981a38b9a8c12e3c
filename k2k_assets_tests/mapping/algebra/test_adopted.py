"""Behind a copy that another tool began: what is known at its end, and that nothing is said of what lies in it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.runs import Run
from k2k_assets.mapping.algebra.fold import Covered, Target
from k2k_assets.mapping.algebra.partition_map import PartitionMap, RunTable, SourcePartition
from k2k_assets.mapping.algebra.reverse import LogHere, first_unread
from k2k_assets.mapping.algebra.translate import (
    NO_OFFSET,
    TranslationState,
    may_repeat,
    translate,
    translate_back,
)

SOURCE = SourcePartition("c", "t", "s-t", 0)
THERE = Target("t", "t-t", 0)
EXACT, AHEAD, UNKNOWN = TranslationState.EXACT, TranslationState.AHEAD, TranslationState.UNKNOWN
NONE = (NO_OFFSET, UNKNOWN)


def adopted(position: int, target_end: int, *runs: Run, end: int | None = None) -> PartitionMap:
    """The map behind an adopted copy."""
    tables = {THERE: RunTable.of(runs)} if runs else {}
    covered = (Covered(position, position if end is None else end),)
    return PartitionMap(SOURCE, position, covered, tables, None, target_end)


def there(mapping: PartitionMap, *positions: int, floor: int = 0) -> list[tuple[int, int]]:
    found = translate(mapping, THERE, np.array(positions), floor, alone=True)
    return [(int(o), TranslationState(int(s))) for o, s in zip(found.offsets, found.states, strict=True)]


def back(mapping: PartitionMap, *positions: int, mapped_to: int | None = None) -> list[tuple[int, int]]:
    found = translate_back(mapping, THERE, np.array(positions), mapped_to)
    return [(int(o), TranslationState(int(s))) for o, s in zip(found.offsets, found.states, strict=True)]


def test_before_the_first_record_the_position_is_the_end_of_the_adopted_copy() -> None:
    mapping = adopted(100, 90)
    assert there(mapping, 0, 99, 100, 101) == [NONE, NONE, (90, EXACT), (90, AHEAD)]


def test_what_retention_has_taken_of_the_target_is_not_gone_back_to() -> None:
    assert there(adopted(100, 90), 100, floor=95) == [(95, EXACT)]


def test_with_records_behind_it() -> None:
    """A position at the end of the adopted copy leads to the first record of ours; one in it to nothing."""
    mapping = adopted(100, 90, Run(102, 91, 3), end=106)
    assert there(mapping, 99, 100, 102, 104, 105) == [NONE, (91, EXACT), (91, EXACT), (93, EXACT), (94, EXACT)]


def test_back_from_the_adopted_copy_nothing_is_known() -> None:
    mapping = adopted(100, 90, Run(102, 91, 3), end=106)
    assert back(mapping, 0, 89, 90, 91, 94) == [NONE, NONE, (102, EXACT), (102, EXACT), (105, EXACT)]


def test_at_least_once_only_copies_behind_it_may_come_again() -> None:
    mapping = adopted(100, 90, Run(100, 90, 5), end=105)
    assert may_repeat(mapping, THERE, np.array([90, 92, 95])).tolist() == [False, False, False]
    mapping = adopted(100, 90, Run(100, 93, 5), end=105)
    assert may_repeat(mapping, THERE, np.array([93, 94, 96, 98])).tolist() == [True, True, False, False]


def test_a_reverse_pipeline_that_adopted_says_nothing_below() -> None:
    """What stood there was copied here by another tool, and lies here nobody knows where."""
    forth = PartitionMap(SOURCE, 0, (Covered(0, 10),), {THERE: RunTable.of([Run(0, 0, 10)])}, 0)
    here = Target("t", "s-t", 0)
    tables = {here: RunTable.of([Run(100, 50, 5)])}
    ours = PartitionMap(SourcePartition("d", "t", "t-t", 0), 100, (Covered(100, 105),), tables, None, 40)
    found = first_unread(forth, THERE, ours, here, np.array([99, 101]), LogHere(50, 55))
    assert list(zip(found.offsets, found.states, strict=True)) == [NONE, (51, EXACT)]


@given(
    position=st.integers(0, 50),
    target_end=st.integers(0, 80),
    counts=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 4)), max_size=6),
    asked=st.integers(0, 120),
)
def test_nothing_is_skipped_whatever_was_adopted(
    position: int, target_end: int, counts: list[tuple[int, int, int]], asked: int
) -> None:
    """Against a model: which copies are on the target, and which of them a group has not read."""
    runs, at, to = [], position, target_end
    for gap, markers, count in counts:
        at, to = at + gap, to + markers
        runs.append(Run(at, to, count))
        at, to = at + count, to + count
    mapping = adopted(position, target_end, *runs, end=at)
    pairs = [(run.source_start + i, run.target_start + i) for run in runs for i in range(run.count)]
    ((offset, state),) = there(mapping, asked)
    if asked < position:
        assert (offset, state) == NONE
    else:
        unread = [target for source, target in pairs if source >= asked]
        last = pairs[-1][1] + 1 if pairs else target_end
        assert offset == min(unread, default=last)
        assert state == (EXACT if asked <= at else AHEAD)
    if not pairs:
        return
    ((offset, state),) = back(mapping, asked)
    if asked < target_end:
        assert (offset, state) == NONE
    elif state == EXACT:
        assert all(source < offset for source, target in pairs if target < asked), "nothing is read again"
        assert all(source >= offset for source, target in pairs if target >= asked), "nothing is skipped"


@pytest.mark.parametrize("target_began", [None, 7])
def test_the_position_is_kept_from_commit_to_commit(target_began: int | None) -> None:
    from k2k_assets.control.commit_record import CommitRecord
    from k2k_assets.core.topic_partition import TopicPartition
    from k2k_assets_tests.support.memory.plans import commit_record

    record = commit_record(TopicPartition("t", 0), 5, target_began=target_began)
    assert CommitRecord.parse(record.key_bytes(), record.value_bytes(), "") == record
    assert (b"targetBegan" in record.value_bytes()) == (target_began is not None)
