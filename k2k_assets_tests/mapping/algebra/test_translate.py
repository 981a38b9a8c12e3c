"""Translation of one source partition: no record skipped and none read again, at every offset of every history."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.control.commit_record import EVERYWHERE
from k2k_assets.core.runs import Run, merge
from k2k_assets.mapping.algebra.fold import Covered
from k2k_assets.mapping.algebra.partition_map import PartitionMap, RunTable, SourcePartition
from k2k_assets.mapping.algebra.translate import (
    NO_OFFSET,
    STATE_LABELS,
    Translated,
    TranslationState,
    may_repeat,
    translate,
    translate_back,
)
from k2k_assets_tests.support.memory.histories import map_at, worlds
from k2k_assets_tests.support.memory.offset_model import Moment, World, target
from k2k_assets_tests.support.suite.properties import examples

EXACT, AHEAD, UNKNOWN, NOT_REPLICATED = (
    TranslationState.EXACT,
    TranslationState.AHEAD,
    TranslationState.UNKNOWN,
    TranslationState.NOT_REPLICATED,
)
Answer = tuple[int, TranslationState]

_SOURCE = SourcePartition("c", "s", "sid", 0)
_Q = target(0)

# The picture of the module's docstring.
DRAWN = PartitionMap(_SOURCE, 0, (Covered(0, 9),), {_Q: RunTable.of([Run(0, 5, 4), Run(6, 10, 3)])})


def _answers(translated: Translated) -> list[Answer]:
    return [(int(o), TranslationState(s)) for o, s in zip(translated.offsets, translated.states, strict=True)]


def _to(mapping: PartitionMap, *positions: int, floor: int | None = None) -> list[Answer]:
    return _answers(translate(mapping, _Q, np.array(positions), floor))


def _back(mapping: PartitionMap, *positions: int, mapped_to: int | None = None) -> list[Answer]:
    return _answers(translate_back(mapping, _Q, np.array(positions), mapped_to))


# -- by hand --------------------------------------------------------------------------------------------------------


def test_the_picture_is_true() -> None:
    """The example drawn in the docstring of the module."""
    offsets = [5, 6, 7, 8, 10, 10, 10, 11, 12, 13]
    assert _to(DRAWN, *range(10)) == [(offset, EXACT) for offset in offsets]
    assert _to(DRAWN, 10, 15, 20, 10**15) == [(13, AHEAD)] * 4


def test_the_picture_is_true_backwards() -> None:
    offsets = [0, 0, 1, 2, 3, 4, 6, 7, 8, 9]
    assert _back(DRAWN, 0, *range(5, 14)) == [(offset, EXACT) for offset in offsets]
    assert _back(DRAWN, 14, 20) == [(9, AHEAD)] * 2
    assert _back(DRAWN, 13, 14, 15, mapped_to=14) == [(9, EXACT), (9, EXACT), (9, AHEAD)]


def test_states_have_labels() -> None:
    told = ["exact", "ahead", "unknown", "not replicated", "expired", "may be read again"]
    assert [state.label for state in TranslationState] == list(STATE_LABELS) == told


def test_below_the_coverage_is_exact_only_where_copying_began() -> None:
    late = replace(DRAWN, covered=(Covered(3, 9),), runs={_Q: RunTable.of([Run(6, 10, 3)])})
    for began, state in [(0, UNKNOWN), (None, UNKNOWN), (3, EXACT), (5, EXACT)]:
        mapping = replace(late, began=began, log_start=began)
        offset = 10 if state is EXACT else NO_OFFSET
        assert _to(mapping, 0, 2, 3, 6) == [(offset, state)] * 2 + [(10, EXACT)] * 2
        assert _back(mapping, 0, 9, 10) == [(6 if state is EXACT else NO_OFFSET, state)] * 2 + [(6, EXACT)]


def test_where_copying_began_above_the_log_start_nothing_below_is_answered() -> None:
    """`latest`, or any other start: what lay between the two is on the source, and never on the target."""
    late = PartitionMap(_SOURCE, 1000, (Covered(1000, 1500),), {_Q: RunTable.of([Run(1000, 0, 500)])})
    unknown, exact = [(NO_OFFSET, UNKNOWN)], [(0, EXACT), (1, EXACT)]
    for log_start in (0, 500, 999, None):
        assert _to(replace(late, log_start=log_start), 0, 500, 999, 1000, 1001) == unknown * 3 + exact
    for log_start in (1000, 1200):
        assert _to(replace(late, log_start=log_start), 0, 500, 999, 1000) == [(0, EXACT)] * 4
    nothing = PartitionMap(_SOURCE, 1000, (Covered(1000, 1000),), {}, log_start=0)
    assert _to(nothing, 500, 1000, 1001, floor=7) == [*unknown, (7, EXACT), (7, AHEAD)]
    assert _to(replace(late, began=0, covered=(Covered(0, 1500),)), 0, 999) == [(0, EXACT)] * 2


def test_what_went_to_another_topic_is_not_passed_over() -> None:
    """The target topic was deleted and created anew, or the routing was changed: the first 1000 are not in this one."""
    for former in (_Q._replace(topic_id="former"), _Q._replace(topic="elsewhere"), _Q._replace(topic="z", partition=9)):
        runs = {former: RunTable.of([Run(0, 0, 990)]), _Q: RunTable.of([Run(1000, 0, 500)])}
        mapping = PartitionMap(_SOURCE, 0, (Covered(0, 1500),), runs)
        assert _to(mapping, 0, 300, 989) == [(NO_OFFSET, UNKNOWN)] * 3
        assert _to(mapping, 990, 999, 1000, 1499, 1501) == [(0, EXACT)] * 3 + [(499, EXACT), (500, AHEAD)]
        assert _back(mapping, 0, 1) == [(1000, EXACT), (1001, EXACT)]
        fresh = replace(mapping, covered=(Covered(0, 1000),), runs={former: runs[former]})
        assert _to(fresh, 989, 990, 1000, floor=3) == [(NO_OFFSET, UNKNOWN), (3, EXACT), (3, EXACT)]
        # There and back again: the records in between were read nowhere.
        again = replace(
            mapping,
            runs={former: RunTable.of([Run(500, 0, 100)]), _Q: RunTable.of([Run(0, 0, 500), Run(600, 501, 900)])},
        )
        assert _to(again, 100, 599, 600) == [(NO_OFFSET, UNKNOWN)] * 2 + [(501, EXACT)]
        assert _back(again, 100, 500, 501, 502) == [(100, EXACT), (NO_OFFSET, UNKNOWN), (600, EXACT), (601, EXACT)]


def test_a_hole_makes_unknown_only_what_it_hides() -> None:
    runs = RunTable.of([Run(0, 5, 4), Run(8, 20, 1)])
    mapping = replace(DRAWN, covered=(Covered(0, 5), Covered(7, 9)), runs={_Q: runs})
    assert _to(mapping, 3, 4, 5, 6, 7, 8) == [(8, EXACT)] + [(NO_OFFSET, UNKNOWN)] * 3 + [(20, EXACT)] * 2
    # 9 is the offset after the last record that was read; between 10 and 19 there may be records of the hole.
    assert _back(mapping, 9, 10, 19, 20) == [(4, EXACT)] + [(NO_OFFSET, UNKNOWN)] * 2 + [(8, EXACT)]


def test_behind_the_last_run_the_coverage_must_reach_it() -> None:
    mapping = replace(DRAWN, covered=(Covered(0, 9), Covered(12, 15)))
    # What the hole at 9 to 11 sent to the target lies after 13, and a position at 13 has read it.
    assert _to(mapping, 9, 10, 13, 15, 16) == [(NO_OFFSET, UNKNOWN)] * 5
    assert _back(mapping, 13, 14, mapped_to=20) == [(9, EXACT), (NO_OFFSET, UNKNOWN)]


def test_nothing_in_the_target_partition() -> None:
    nothing = replace(DRAWN, runs={})
    assert _to(nothing, 0, 9, 10) == [(NO_OFFSET, NOT_REPLICATED)] * 3
    assert _to(nothing, 0, 9, 10, floor=7) == [(7, EXACT), (7, EXACT), (7, AHEAD)]
    assert _to(replace(nothing, began=None), 0, 9, floor=7) == [(NO_OFFSET, UNKNOWN)] * 2
    assert _to(replace(nothing, covered=(Covered(0, 3), Covered(5, 9))), 1, 9, floor=7) == [(NO_OFFSET, UNKNOWN)] * 2
    assert _back(nothing, 0, 9) == [(NO_OFFSET, NOT_REPLICATED)] * 2


def test_nothing_covered_is_not_replicated() -> None:
    nothing = replace(DRAWN, covered=(), runs={})
    assert _to(nothing, 0, 9, floor=7) == [(NO_OFFSET, NOT_REPLICATED)] * 2


def test_shapes_are_kept_and_none_is_fine() -> None:
    assert translate(DRAWN, _Q, np.zeros((2, 3), dtype=np.int64)).offsets.shape == (2, 3)
    for function in (translate, translate_back):
        answer = function(DRAWN, _Q, np.array([], dtype=np.int64))
        assert (answer.offsets.dtype, answer.states.dtype) == (np.dtype(np.int64), np.dtype(np.uint8))
        assert len(answer.states) == 0


def test_many_lookups_take_no_python_call_each() -> None:
    many = 200_000
    starts = np.arange(many, dtype=np.int64) * 1000
    runs = RunTable(starts, starts + starts // 1000, np.full(many, 999, dtype=np.int64))
    mapping = replace(DRAWN, covered=(Covered(0, many * 1000),), runs={_Q: runs})
    positions = np.random.default_rng(1).integers(0, many * 1000, many)
    calls: Counter[str] = Counter()
    sys.setprofile(lambda frame, event, arg: calls.update([event]))
    try:
        there = translate(mapping, _Q, positions)
        back = translate_back(mapping, _Q, there.offsets)
    finally:
        sys.setprofile(None)
    assert calls["call"] + calls["c_call"] < many / 100
    on_records = positions % 1000 < 999
    assert np.array_equal(back.offsets[on_records], positions[on_records])


# -- histories ------------------------------------------------------------------------------------------------------


def _moment(world: World, data: st.DataObject) -> Moment:
    return data.draw(st.sampled_from(world.moments))


def _skipped(world: World, position: int, offset: int) -> int:
    """S: records from the position on that will not be read, though in the end all are copied."""
    return len(world.records_from(0, position) - set(world.read_from(0, offset)))


def _read_again(world: World, moment: Moment, mapping: PartitionMap, position: int, offset: int) -> int:
    """R: records before the position that were there at the moment, and will be read."""
    if moment.positions[0] < mapping.covered_end and not world.exactly_once:
        return 0  # set back: at-least-once, repeated records are visible before their mapping is committed
    return sum(s < position for _, s in world.read_from(0, offset, moment.stable[0]))


@examples(150)
@given(worlds(), st.data())
def test_nothing_is_skipped_and_nothing_read_again_at_any_offset(world: World, data: st.DataObject) -> None:
    moment = _moment(world, data)
    positions = range(len(world.sources[0]) + 3)
    mapping = map_at(world, 0, moment)
    for position, (offset, state) in zip(positions, _to(mapping, *positions, floor=0), strict=True):
        assert state in ((EXACT, AHEAD) if mapping.covered else (NOT_REPLICATED,)), "the mappings are complete"
        if mapping.covered:
            assert _skipped(world, position, offset) == 0
            assert (position <= mapping.covered_end) == (state is EXACT)
        if state is EXACT:
            assert _read_again(world, moment, mapping, position, offset) == 0


@examples(150)
@given(worlds(mappings_complete=False), st.booleans(), st.data())
def test_with_mappings_missing_an_answer_is_right_or_unknown(
    world: World, began_known: bool, data: st.DataObject
) -> None:
    moment = _moment(world, data)
    positions = range(len(world.sources[0]) + 3)
    mapping = map_at(world, 0, moment, began_known)
    for position, (offset, state) in zip(positions, _to(mapping, *positions, floor=0), strict=True):
        if state in (EXACT, AHEAD):
            assert _skipped(world, position, offset) == 0
        if state is EXACT and not world.recopy_lost:
            assert _read_again(world, moment, mapping, position, offset) == 0
        assert (state is UNKNOWN) == (bool(mapping.covered) and not _provable(mapping, position))


def _provable(mapping: PartitionMap, position: int) -> bool:
    """The rule of the docstring, offset by offset."""
    covered = {offset for start, end in mapping.covered for offset in range(start, end)}
    anchored = mapping.began is not None and min(covered) <= mapping.began
    below = set(range(min(covered))) if anchored else set()
    mapped = [run.source_start + i for run in mapping.runs.get(_Q, ()) for i in range(run.count)]
    after = [offset for offset in mapped if offset >= position]
    if after:
        return set(range(position, after[0] + 1)) <= covered | below
    if mapped:
        return set(range(mapped[-1] + 1, max(covered) + 1)) <= covered
    return anchored and set(range(max(covered))) <= covered | below


@examples(150)
@given(worlds(recopies=False, exactly_once=True), st.data())
def test_back_from_the_target_nothing_is_skipped_and_nothing_read_again(world: World, data: st.DataObject) -> None:
    moment = _moment(world, data)
    mapping = map_at(world, 0, moment)
    end = moment.stable[0]
    answers = _back(mapping, *range(end + 1), mapped_to=end)
    read = {t: {s for _, s in world.read_from(0, 0, t)} for t in range(end + 1)}
    for position, (offset, state) in enumerate(answers):
        if not mapping.runs:
            assert state is NOT_REPLICATED
            continue
        assert state is EXACT
        unread = read[end] - read[position]
        assert all(s >= offset for s in unread)
        assert all(s < offset for s in read[position])


@examples(300)
@given(worlds(exactly_once=False), st.data())
def test_back_at_least_once_what_may_be_read_again_is_known(world: World, data: st.DataObject) -> None:
    moment = _moment(world, data)
    mapping = map_at(world, 0, moment)
    positions = np.arange(moment.logs[0] + 1)
    repeats = may_repeat(mapping, _Q, positions)
    for position, (offset, state) in enumerate(_back(mapping, *positions, mapped_to=moment.logs[0])):
        if state is EXACT and not repeats[position]:
            assert all(s < offset for _, s in world.read_from(0, 0, position))


@examples(300)
@given(
    st.lists(st.sampled_from(["copy", "copy", "copy", "freeze", "late", "late"]), max_size=40),
    st.lists(st.integers(1, 3), max_size=4) | st.none(),
    st.data(),
)
def test_back_at_least_once_what_frozen_writers_send_late_is_counted(
    events: list[str], exactly_once: list[int] | None, data: st.DataObject
) -> None:
    """A superseded writer can commit nothing, but what it had queued may land piece by piece, among newer copies.

    Then it may go on exactly once, by transactions.
    """
    log: list[tuple[int, bool]] = []
    mapped, frozen = 0, list[int]()
    for event in events:
        if event == "copy":
            log.append((mapped, True))
            mapped += 1
        elif event == "freeze":
            frozen.append(mapped)
        elif frozen:
            writer = data.draw(st.integers(0, len(frozen) - 1))
            log.append((frozen[writer], False))
            frozen[writer] += 1
    below = EVERYWHERE if exactly_once is None else mapped
    begins = len(log)
    for count in exactly_once or ():
        log += [(mapped + n, True) for n in range(count)]
        log.append((-1, False))  # the marker
        mapped += count
    runs = merge(Run(source, at, 1) for at, (source, is_mapped) in enumerate(log) if is_mapped)
    tables = {_Q: RunTable.of(runs)} if runs else {}
    mapping = PartitionMap(_SOURCE, 0, (Covered(0, mapped),) if mapped else (), tables)
    positions = np.arange(len(log) + 1)
    repeats = may_repeat(mapping, _Q, positions, below)
    if exactly_once:
        unmapped = sum(not is_mapped for _, is_mapped in log[:begins])
        assert not repeats[begins + 2 * unmapped + 1 :].any(), "as many records later, each with a marker"
    for position, (offset, state) in enumerate(_back(mapping, *positions, mapped_to=len(log))):
        if state is EXACT and not repeats[position]:
            assert all(source < offset for source, _ in log[:position])


@examples(150)
@given(worlds(mappings_complete=False), st.booleans(), st.data())
def test_back_from_the_target_nothing_is_skipped_whatever_happened(
    world: World, began_known: bool, data: st.DataObject
) -> None:
    moment = _moment(world, data)
    mapping = map_at(world, 0, moment, began_known)
    copied = moment.copied.get((0, 0), {})
    end = moment.logs[0]
    for position, (offset, state) in enumerate(_back(mapping, *range(end + 1))):
        if state is not EXACT:
            continue
        read = {s for _, s in world.read_from(0, 0, position)}
        assert all(s >= offset for s in copied if s not in read)


@examples(150)
@given(worlds(), st.data())
def test_there_and_back_again(world: World, data: st.DataObject) -> None:
    """The translation of a copied record's offset leads back to the same record, in the same order."""
    mapping = map_at(world, 0, _moment(world, data))
    runs = mapping.runs.get(_Q, RunTable.of(()))
    records = [run.source_start + i for run in runs for i in range(run.count)]
    there = _to(mapping, *records)
    assert _back(mapping, *(offset for offset, _ in there)) == [(offset, EXACT) for offset in records]
    assert all(a < b for (a, _), (b, _) in pairwise(there))
