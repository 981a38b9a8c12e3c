"""The in-memory mapping answers like the whole mapping, or "unknown" for runs that were dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from k2k_assets.control.mapping_records import MappedPartition, MappingRecord
from k2k_assets.core.runs import Run
from k2k_assets.mapping.algebra.fold import Covered, Order, PartitionMapping, Target, fold
from k2k_assets.mapping.algebra.in_memory_mapping import InMemoryMapping, NotInMemory, Placed, without
from k2k_assets.mapping.algebra.in_memory_mappings import InMemoryMappings
from k2k_assets.mapping.algebra.lost_copies import unless_copied_anew
from k2k_assets.mapping.algebra.partition_map import PartitionMap, RunTable, SourcePartition
from k2k_assets.mapping.algebra.run_tables import before, joined, since
from k2k_assets.mapping.algebra.spread import combine_back
from k2k_assets.mapping.algebra.translate import TranslationState, translate, translate_back
from k2k_assets_tests.support.memory.mapping_topic import committed, in_generations, routed_to
from k2k_assets_tests.support.memory.way_back import assert_none_skipped_back
from k2k_assets_tests.support.suite.properties import examples

SOURCE = SourcePartition("c", "s", "sid", 0)
TARGETS = [Target("t", "tid", partition) for partition in range(2)]


def record(
    sequence: int, covered: tuple[int, int], runs: dict[int, list[tuple[int, int, int]]], time: int = 0
) -> MappingRecord:
    targets = tuple(
        MappedPartition(*TARGETS[q], tuple(Run(*run) for run in of_target)) for q, of_target in runs.items()
    )
    return MappingRecord("g", "s", 0, "p", "c", "sid", 1, 0, sequence, time, *covered, targets)


def placed(records: Sequence[MappingRecord]) -> list[Placed]:
    return [Placed(0, offset, each) for offset, each in enumerate(records)]


def whole(records: Sequence[MappingRecord]) -> PartitionMap:
    return PartitionMap.of(SOURCE, 0, fold(PartitionMapping(), records))


@st.composite
def histories(draw: st.DrawFn) -> list[MappingRecord]:
    """Records with gaps, empty ranges, lost records and copies that start again, into one or two targets.

    Some ranges were skipped by hand.
    """
    position, ends, records, last = 0, [0, 0], [], draw(st.integers(0, 1))
    for number in range(draw(st.integers(1, 12))):
        kind = draw(st.integers(0, 10))
        if kind == 0:
            position = draw(st.integers(0, position))
        elif kind == 1:
            position += draw(st.integers(1, 3))
        start = position
        runs: dict[int, list[tuple[int, int, int]]] = {}
        if kind == 10:
            position += draw(st.integers(0, 3))
            records.append(replace(record(number, (start, position), runs, time=number * 1000), override="by hand"))
            continue
        for _ in range(draw(st.integers(0, 4))):
            position += draw(st.integers(0, 2))
            target, count = draw(st.integers(0, last)), draw(st.integers(1, 3))
            ends[target] += draw(st.integers(0, 1))
            runs.setdefault(target, []).append((position, ends[target], count))
            position, ends[target] = position + count, ends[target] + count
        position += draw(st.integers(0, 2))
        records.append(record(number, (start, position), runs, time=number * 1000))
    return records


def floor_of(mapping: PartitionMap) -> int | None:
    """Only where nothing was mapped anywhere it is the answer."""
    return None if mapping.runs else 0


def assert_same_answers(wanted: PartitionMap, found: PartitionMap, lowest: int, unknown_below: int) -> None:
    positions = np.arange(lowest, wanted.covered_end + 4)
    known = positions >= unknown_below
    for target in TARGETS:
        right, answer = (translate(m, target, positions, floor_of(wanted)) for m in (wanted, found))
        assert answer.offsets[known].tolist() == right.offsets[known].tolist()
        assert answer.states[known].tolist() == right.states[known].tolist()
        assert set(answer.states[~known].tolist()) <= {TranslationState.UNKNOWN, TranslationState.NOT_REPLICATED}


@examples(75)
@given(histories(), st.data())
def test_held_bit_by_bit_with_drops_it_answers_as_the_whole(records: list[MappingRecord], data: st.DataObject) -> None:
    held = InMemoryMapping()
    taken: list[Placed] = []
    rest = placed(records)
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        batch, rest = rest[:size], rest[size:]
        try:
            held.extend(batch, mark_every=1)
        except NotInMemory:
            held = InMemoryMapping()
            held.extend([*taken, *batch], mark_every=1)
        taken += batch
        if data.draw(st.booleans()):
            how = {"older_than": data.draw(st.integers(0, 13_000))}, {"log_start": data.draw(st.integers(0, 13))}
            before = held.since
            dropped = held.drop(**how[data.draw(st.integers(0, 1))])
            assert dropped == (held.since > before)
        covered, tables = held.alone()
        wanted = whole([each.record for each in taken])
        assert tuple(held.skipped) == wanted.skipped
        if wanted.covered:
            assert_same_answers(wanted, PartitionMap(SOURCE, 0, covered, tables), 0, held.since)


@examples(75)
@given(histories(), st.data())
def test_with_an_index_it_answers_below_too(records: list[MappingRecord], data: st.DataObject) -> None:
    """The index may end before what is held begins, or be newer."""
    opened, newer = (data.draw(st.integers(0, len(records))) for _ in range(2))
    index = whole(records[: max(opened, newer)])
    held = InMemoryMapping.behind(whole(records[:opened]))
    if records[opened:]:
        try:
            held.extend(placed(records)[opened:], mark_every=1)
        except NotInMemory:
            return
    held.drop(older_than=data.draw(st.integers(0, 13_000)))
    if any(offset > max(opened, newer) for offset in held.recopied.values()):
        return  # such an index is not used, because it lacks the re-copy
    wanted = whole(records)
    if not wanted.covered:
        return
    covered, tables = held.with_index(index)
    assert offsets_of(held.skipped_with(index)) == offsets_of(wanted.skipped)
    found = PartitionMap(SOURCE, 0, covered, tables)
    positions = np.arange(0, wanted.covered_end + 4)
    nowhere = (positions >= index.covered_end) & (positions < held.since)
    for target in TARGETS:
        right, answer = (translate(m, target, positions, floor_of(wanted)) for m in (wanted, found))
        above = positions >= held.since
        assert answer.offsets[above].tolist() == right.offsets[above].tolist()
        assert set(answer.states[nowhere].tolist()) <= {TranslationState.UNKNOWN, TranslationState.NOT_REPLICATED}
        told = answer.states <= TranslationState.AHEAD
        assert answer.offsets[told].tolist() == right.offsets[told].tolist()
        if not nowhere.any():
            assert answer.states.tolist() == right.states.tolist()


def offsets_of(ranges: Sequence[Covered]) -> set[int]:
    return {offset for start, end in ranges for offset in range(start, end)}


def lost(known: PartitionMap, gap: Covered) -> PartitionMap:
    """An index of which a stretch is gone, as pruning or an expired head leaves it."""
    runs = {target: joined(before(table, gap.start), since(table, gap.end)) for target, table in known.runs.items()}
    return PartitionMap(
        SOURCE,
        known.began,
        without(known.covered, gap),
        {target: table for target, table in runs.items() if len(table)},
    )


@examples(150)
@given(histories(), st.data())
def test_what_the_index_has_lost_meanwhile_is_unknown(records: list[MappingRecord], data: st.DataObject) -> None:
    """It was held once, but nobody can tell any more where it went."""
    wanted = whole(records)
    held = InMemoryMapping()
    held.extend(placed(records), mark_every=1)
    held.drop(older_than=data.draw(st.integers(0, 13_000)))
    start = data.draw(st.integers(0, wanted.covered_end))
    gap = Covered(start, data.draw(st.integers(start, wanted.covered_end)))
    covered, tables = held.with_index(lost(wanted, gap))
    found = PartitionMap(SOURCE, 0, covered, tables)
    positions = np.arange(0, wanted.covered_end + 4)
    for target in TARGETS:
        right, answer = (translate(m, target, positions, floor_of(wanted)) for m in (wanted, found))
        above = positions >= held.since
        assert answer.offsets[above].tolist() == right.offsets[above].tolist()
        told = answer.states <= TranslationState.AHEAD
        assert answer.offsets[told].tolist() == right.offsets[told].tolist()
        gone = (positions >= gap.start) & (positions < min(gap.end, held.since))
        assert set(answer.states[gone].tolist()) <= {TranslationState.UNKNOWN, TranslationState.NOT_REPLICATED}


def test_an_index_that_was_pruned_from_its_beginning_answers_nothing_there() -> None:
    """As it was seen: a group at 300, rightly at 300 on the target, was moved to where the index now begins."""
    records = [record(1, (0, 2000), {0: [(0, 0, 2000)]}), record(2, (2000, 4000), {0: [(2000, 2002, 2000)]}, 9)]
    held = InMemoryMapping()
    held.extend(placed(records), mark_every=1)
    held.extend([Placed(0, 2, record(3, (4000, 5000), {0: [(4000, 4004, 1000)]}, 20))], mark_every=1)
    held.drop(older_than=15)
    covered, tables = held.with_index(lost(whole(records), Covered(0, 2000)))
    answer = translate(PartitionMap(SOURCE, 0, covered, tables), TARGETS[0], np.array([300, 2500, 4500]))
    assert answer.offsets.tolist() == [-1, 2502, 4504]
    assert answer.states.tolist() == [TranslationState.UNKNOWN, TranslationState.EXACT, TranslationState.EXACT]


def test_only_so_many_runs_into_a_target_partition_stay() -> None:
    held = InMemoryMapping()
    held.extend(placed([record(1, (0, 30), {0: [(0, 0, 3), (10, 10, 3), (20, 20, 3)], 1: [(5, 0, 1)]})]), mark_every=1)
    assert held.runs == 4
    assert held.drop(most_runs=2)
    assert (held.since, held.runs, held.ends) == (10, 2, {TARGETS[0]: (3, 3), TARGETS[1]: (6, 1)})
    assert not held.drop(most_runs=2)
    covered, tables = held.alone()
    assert covered == (Covered(10, 30),)
    known = PartitionMap(SOURCE, 0, covered, tables)
    assert translate(known, TARGETS[0], np.array([9, 10, 15, 30])).offsets.tolist() == [-1, 10, 20, 23]
    assert translate(known, TARGETS[1], np.array([9, 10, 30])).offsets.tolist() == [-1, 1, 1]


def test_a_copy_that_starts_again_below_what_is_held_is_not_guessed_at() -> None:
    held = InMemoryMapping.behind(whole([record(1, (0, 30), {0: [(0, 0, 30)]})]))
    held.extend([Placed(0, 7, record(2, (30, 40), {0: [(30, 30, 10)]}))], mark_every=1)
    with pytest.raises(NotInMemory, match="starts again at 29"):
        held.extend([Placed(0, 8, record(3, (29, 40), {0: [(29, 50, 10)]}))], mark_every=1)
    held.extend([Placed(0, 9, record(4, (35, 36), {0: [(35, 60, 1)]}))], mark_every=1)
    assert held.recopied == {0: 10}
    assert held.tables == {TARGETS[0]: RunTable.of([Run(30, 30, 5), Run(35, 60, 1)])}


def test_what_an_index_must_have_read_is_where_the_copy_started_again() -> None:
    """Later records lie in another partition, of a mapping topic that has got more of them."""
    held = InMemoryMappings("g", mark_every=1)
    held.take({("g", SOURCE): [Placed(3, 7, record(1, (0, 30), {0: [(0, 0, 30)]}))]})
    held.take({("g", SOURCE): [Placed(3, 8, record(2, (20, 40), {0: [(20, 50, 20)]}))]})
    held.take({("g", SOURCE): [Placed(4, 0, record(3, (40, 50), {0: [(40, 70, 10)]}))]})
    assert held.read_to(SOURCE) == {3: 9}


def test_where_the_copy_started_again_may_lie_in_several_partitions() -> None:
    """In whichever order they are read."""
    held = InMemoryMappings("g", mark_every=1)
    again = [Placed(4, 3, record(2, (0, 40), {0: [(0, 50, 40)]})), Placed(3, 7, record(1, (0, 30), {0: [(0, 0, 30)]}))]
    held.take({("g", SOURCE): again})
    assert held.read_to(SOURCE) == {4: 4, 3: 8}


def test_an_index_must_have_read_what_was_read_anew() -> None:
    """It may hold what was cancelled by records of which nothing is to be seen any more."""
    held = InMemoryMappings("g", mark_every=1)
    held.begin_anew({0: 12, 1: 5})
    held.take({("g", SOURCE): [Placed(0, 11, record(2, (40, 50), {0: [(40, 0, 10)]}))]})
    assert held.read_to(SOURCE) == {0: 12, 1: 5}


def test_an_index_must_have_read_what_was_begun_behind() -> None:
    """One that is built anew may not have come yet to the records that cancelled what it holds."""
    held = InMemoryMappings("g", mark_every=1)
    begun = InMemoryMapping.behind(whole([record(1, (0, 30), {0: [(0, 0, 30)]})]))
    held.begin_behind_index({SOURCE: begun}, {0: 12, 1: 5})
    held.take({("g", SOURCE): [Placed(0, 12, record(2, (30, 40), {0: [(30, 30, 10)]}))]})
    assert held.read_to(SOURCE) == {0: 12, 1: 5}
    assert not held.read_anew_to


@pytest.mark.parametrize(
    ("next_one", "generation", "since", "joined"),
    [
        ((30, 40), 0, 0, True),
        ((20, 40), 0, 0, False),
        ((30, 40), 1, 1, False),
        ((33, 40), 1, 1, False),
        ((33, 40), 2, 1, False),
        ((30, 40), 2, 0, True),
        ((20, 40), 2, 0, False),
    ],
    ids=[
        "goes on",
        "goes back",
        "another generation",
        "leaves something out",
        "an earlier one may have gone back",
        "all later ones have gone on",
        "says what cannot be",
    ],
)
def test_after_a_loss_only_what_surely_goes_on_joins_on(
    next_one: tuple[int, int], generation: int, since: int, joined: bool
) -> None:
    """What was lost may have begun another copy, of which this is the middle."""
    held = InMemoryMappings("g", mark_every=1)
    held.take({("g", SOURCE): [Placed(0, 0, record(1, (0, 30), {0: [(0, 0, 30)]}))]})
    held.doubt()
    start, end = next_one
    first = record(2, next_one, {1: [(start, 0, end - start)]})
    later = replace(first, generation=first.generation + generation, forward_since=first.generation + since)
    held.take({("g", SOURCE): [Placed(0, 9, later)]})
    covered, tables = held.alone(SOURCE)
    assert (covered[0].start == 0) == joined
    known = PartitionMap(SOURCE, 0, covered, tables)
    answer = translate(known, TARGETS[1], np.array([5]))
    assert (answer.states.tolist() == [TranslationState.EXACT]) == joined, (
        "the first record of the other target follows on 5"
    )
    last = replace(later, sequence=9, covered_from=end, covered_to=60, targets=())
    held.take({("g", SOURCE): [Placed(0, 10, last)]})
    assert len(held.alone(SOURCE)[0]) == len(covered), "told once"


def test_what_only_the_index_knows_to_be_skipped_is_told_below_what_is_held() -> None:
    """The mappings were read anew from a topic that has deleted the first ones; the index has gone on meanwhile."""
    by_hand = [replace(record(n, covered, {}), override="by hand") for n, covered in enumerate([(2, 4), (9, 12)])]
    held = InMemoryMapping(since=8)
    held.extend(placed([record(2, (8, 20), {0: [(8, 0, 12)]})]), mark_every=1)
    assert held.skipped_with(whole(by_hand)) == (Covered(2, 4),)


def test_what_may_be_of_another_copy_is_not_skipped_any_more() -> None:
    held = InMemoryMapping()
    held.extend(placed([replace(record(0, (0, 9), {}), override="by hand")]), mark_every=1)
    held.is_doubtful = True
    held.extend(placed([replace(record(1, (4, 7), {}), generation=2)]), mark_every=1)
    assert held.skipped == [Covered(0, 4)]


def test_what_lies_below_a_loss_may_all_have_been_copied_again() -> None:
    """Lost are the way back to 0, and the second copies of 0 to 5: groups at 1 and 4 were moved to 0."""
    records = [record(1, (0, 4), {}), record(2, (4, 10), {0: [(4, 0, 6)]})]
    last = replace(record(3, (6, 20), {0: [(6, 14, 14)]}), generation=2)
    held = InMemoryMapping()
    held.extend(placed(records), mark_every=1)
    held.is_doubtful = True
    held.extend([Placed(0, 9, last)], mark_every=1)
    answer = translate(PartitionMap(SOURCE, 0, *held.alone()), TARGETS[0], np.array([1, 4, 6, 20]), 0)
    assert answer.offsets.tolist() == [-1, -1, 14, 28]


def test_copies_below_a_new_beginning_stay_known_after_a_loss() -> None:
    """What retention left of the source was copied anew; the former copies of all of it are still on the target."""
    held = InMemoryMapping()
    held.extend(placed([record(1, (0, 900), {0: [(0, 0, 900)]})]), mark_every=1)
    held.is_doubtful = True
    held.extend([Placed(0, 9, replace(record(2, (500, 600), {0: [(500, 1000, 100)]}), generation=2))], mark_every=1)
    known = PartitionMap(SOURCE, 500, *held.alone(), log_start=500)
    answer = translate(known, TARGETS[0], np.array([100, 499, 500]), 0)
    assert answer.offsets.tolist() == [-1, -1, 1000]
    assert not known.is_whole


def test_a_target_with_forgotten_copies_stays_known_when_a_later_copy_goes_back_below_them() -> None:
    """A reader of both targets that has read nothing of the second one must not be sent behind its records."""
    first = [record(1, (0, 50), {0: [(0, 0, 50)]}), record(2, (50, 100), {1: [(50, 0, 50)]})]
    behind_the_loss = replace(record(3, (200, 300), {0: [(200, 200, 100)]}), generation=2)
    back = replace(record(4, (60, 400), {0: [(60, 300, 340)]}), generation=3)
    held = InMemoryMapping()
    held.extend(placed(first), mark_every=1)
    held.is_doubtful = True
    for offset, each in enumerate([behind_the_loss, back], start=9):
        held.extend([Placed(0, offset, each)], mark_every=1)

    def unread(known: PartitionMap) -> tuple[int, TranslationState]:
        return combine_back(known, {to: 640 if to == TARGETS[0] else 0 for to in known.runs})

    assert unread(PartitionMap(SOURCE, 0, *held.alone()))[1] == TranslationState.UNKNOWN
    went_on = replace(behind_the_loss, forward_since=1)
    assert unread(whole([*first, went_on, back])) == (50, TranslationState.EXACT)


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize(("since", "answers"), [(None, [-1, 120]), (2, [-1, 120]), (1, [50, 120])])
def test_what_was_copied_without_mappings_may_be_elsewhere(
    since: int | None, answers: list[int], at_once: bool
) -> None:
    """Mappings were off for the generation that copied 100 to 199; who reads target 0 on from 50 may not get these."""
    records = [
        record(1, (0, 100), {0: [(0, 0, 100)]}),
        replace(record(1, (200, 300), {0: [(200, 100, 100)]}), generation=3, forward_since=since),
    ]
    held = InMemoryMapping()
    for batch in [placed(records)] if at_once else [[each] for each in placed(records)]:
        held.extend(batch, mark_every=1)
    behind_index = InMemoryMapping.behind(whole(records[:1]), Order(1, 1))
    behind_index.extend(placed(records[1:]), mark_every=1)
    maps = [whole(records), *(PartitionMap(SOURCE, 0, *each.alone()) for each in (held, behind_index))]
    for found in maps[: 3 if since != 1 else 2]:
        assert translate(found, TARGETS[0], np.array([50, 220])).offsets.tolist() == answers


def test_the_end_of_forgotten_copies_is_not_translated_back() -> None:
    """Lost are the way back to 60 and the second copies of 60 to 149: a reader at 100 has read none of these."""
    held = InMemoryMapping()
    held.extend(placed([record(1, (0, 100), {0: [(0, 0, 100)]})]), mark_every=1)
    held.is_doubtful = True
    held.extend([Placed(0, 9, replace(record(2, (150, 200), {0: [(150, 190, 50)]}), generation=2))], mark_every=1)
    known = PartitionMap(SOURCE, 0, *held.alone())
    answer = translate_back(known, TARGETS[0], np.array([80, 100, 189, 190, 195, 240]))
    assert answer.offsets.tolist() == [-1, -1, -1, 150, 155, 200]
    assert [combine_back(known, {TARGETS[0]: at})[0] for at in (80, 100, 189, 195, 240)] == [-1, -1, -1, 155, 200]


def test_behind_an_index_former_copies_do_not_go_on_where_a_later_one_begins() -> None:
    """Lost is a copy of 60 to 149 into target 0; then all from 100 on was copied into target 1."""
    runs = {TARGETS[0]: RunTable.of([Run(0, 0, 100)]), TARGETS[1]: RunTable.of([Run(100, 0, 100)])}
    index = PartitionMap(SOURCE, 0, (Covered(100, 200),), runs)
    held = InMemoryMapping.behind(index)
    for covered, tables in (held.alone(), held.with_index(index)):
        known = PartitionMap(SOURCE, 0, covered, tables)
        assert translate(known, TARGETS[0], np.array([200])).offsets.tolist() == [-1], "rightly behind the lost copies"
        assert translate_back(known, TARGETS[0], np.array([100])).offsets.tolist() == [-1], "rightly 60"


@pytest.mark.parametrize("start", [0, 1, 50, 100, 150])
@pytest.mark.parametrize("doubtful", [False, True])
def test_behind_an_index_without_coverage_only_the_ends_of_its_copies_are_known(start: int, doubtful: bool) -> None:
    """Of what was lost only the last record was read, which covers nothing: foreign records were accepted at 150."""
    index = PartitionMap(SOURCE, 0, (), {target: RunTable.of([Run(0, 0, 100)]) for target in TARGETS})
    held = InMemoryMapping.behind(index, Order(2, 1), doubtful)
    again = replace(record(1, (start, 200), {0: [(start, 190, 200 - start)]}), generation=3)
    held.extend([Placed(0, 9, again)], mark_every=1)
    covered, tables = held.alone()
    known = PartitionMap(SOURCE, 0, covered, tables)
    assert all((np.diff(table.source_starts) > 0).all() for table in tables.values())
    answer = translate(known, TARGETS[0], np.array([max(start - 1, 0), start, 200]))
    assert answer.offsets.tolist() == [-1 if start else 190, 190, 390 - start]
    back = translate_back(known, TARGETS[0], np.array([99, 100, 190, 390 - start]))
    assert back.offsets.tolist() == ([-1, -1] if start else [0, 0]) + [start, 200]
    assert (TARGETS[1] in tables) == (start > 0), "copied anew from the beginning, nothing is there any more"


@examples(150)
@given(histories(), st.data())
def test_after_a_loss_it_answers_as_the_whole_or_not_at_all(records: list[MappingRecord], data: st.DataObject) -> None:
    """Records were deleted before they were read; the next one was read, or there is none but the commit record."""
    records = in_generations(records)
    first = data.draw(st.integers(0, len(records) - 1))
    after = data.draw(st.integers(first, len(records)))
    held = InMemoryMapping()
    if first and data.draw(st.booleans()):
        newest = Order(records[first - 1].generation, records[first - 1].sequence)
        held = InMemoryMapping.behind(whole(records[:first]), newest)
    elif first:
        held.extend(placed(records[:first]), mark_every=1)
        held.drop(older_than=data.draw(st.integers(0, 13_000)))
    held.is_doubtful = after > first
    rest = [Placed(0, offset, each) for offset, each in enumerate(records[after:], start=after)]
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        batch, rest = rest[:size], rest[size:]
        try:
            held.extend(batch, mark_every=1)
        except NotInMemory:
            return
    ensure_as_the_whole(records, held, data)


@examples(150)
@given(histories(), st.data())
def test_where_no_mappings_were_written_it_answers_as_the_whole_or_not_at_all(
    records: list[MappingRecord], data: st.DataObject
) -> None:
    """Mappings were off for a time, in which the copy went on, be it to another place. Nobody notices a loss."""
    records = in_generations(records)
    first = data.draw(st.integers(1, len(records)))
    after = data.draw(st.integers(first, len(records)))
    around = records[first - 1 : after + 1]
    assume(after < len(records))
    assume(all(a.covered_to <= b.covered_from and b.override is None for a, b in pairwise(around)))
    assume(around[0].covered_to < around[-1].covered_from or not any(each.targets for each in around[1:-1]))
    held = InMemoryMapping()
    rest, size = placed(records[:first] + records[after:]), data.draw(st.integers(1, 4))
    for begin in range(0, len(rest), size):
        held.extend(rest[begin : begin + size], mark_every=1)
    ensure_as_the_whole(records, held, data)


def ensure_as_the_whole(records: Sequence[MappingRecord], held: InMemoryMapping, data: st.DataObject) -> None:
    """What a mapping of some records answers, the fold of all of them answers alike."""
    maps = whole(records), PartitionMap(SOURCE, 0, *held.alone())
    wanted, found = (each.reaching(records[-1].covered_to) for each in maps)  # as the commit record says
    if held.is_doubtful:
        found = unless_copied_anew(found, held.newest, committed(records[-1]))
    targets = [target._replace(topic=routed_to(records[-1])) for target in TARGETS]
    positions = np.arange(held.since, wanted.covered_end + 4)
    for target in targets:
        right, answer = (translate(m, target, positions, 0) for m in (wanted, found))
        assert not (answer.states[right.states == TranslationState.UNKNOWN] <= TranslationState.AHEAD).any()
        right, answer = (translate(m, target, positions, 0, alone=data.draw(st.booleans())) for m in (wanted, found))
        told = (answer.states <= TranslationState.AHEAD) & (right.states <= TranslationState.AHEAD)
        assert answer.offsets[told].tolist() == right.offsets[told].tolist()
    assert_none_skipped_back(wanted, found, targets, data)
