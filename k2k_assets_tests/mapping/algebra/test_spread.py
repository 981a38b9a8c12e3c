"""Back from several target partitions to one source partition: nothing unread is skipped."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.runs import Run
from k2k_assets.mapping.algebra.fold import Covered
from k2k_assets.mapping.algebra.partition_map import PartitionMap, RunTable, SourcePartition
from k2k_assets.mapping.algebra.spread import combine_back
from k2k_assets.mapping.algebra.translate import NO_OFFSET, TranslationState, translate_back
from k2k_assets_tests.support.memory.histories import by_key, map_at, worlds
from k2k_assets_tests.support.memory.offset_model import World, target
from k2k_assets_tests.support.suite.properties import examples

EXACT, UNKNOWN, NOT_REPLICATED = TranslationState.EXACT, TranslationState.UNKNOWN, TranslationState.NOT_REPLICATED

_A, _B = target(0), target(1)

# The picture of the module's docstring.
DRAWN = PartitionMap(
    SourcePartition("c", "s", "sid", 0),
    0,
    (Covered(0, 7),),
    {
        _A: RunTable.of([Run(0, 0, 1), Run(2, 1, 1), Run(5, 2, 1)]),
        _B: RunTable.of([Run(1, 0, 1), Run(4, 1, 1), Run(6, 2, 1)]),
    },
)


def test_the_picture_is_true() -> None:
    """The example drawn in the docstring of the module."""
    assert combine_back(DRAWN, {_A: 2, _B: 1}) == (3, EXACT)


def test_at_both_ends() -> None:
    """A group that has read nothing goes back to the first record, one that has read all behind the last."""
    assert combine_back(DRAWN, {_A: 0, _B: 0}) == (0, EXACT)
    assert combine_back(DRAWN, {_A: 0, _B: 9}) == (0, EXACT)
    assert combine_back(DRAWN, {_A: 9, _B: 9}) == (7, EXACT)
    assert combine_back(DRAWN, {_B: 9}) == (7, EXACT)


def test_what_was_read_before_coverage_began_is_unknown() -> None:
    late = PartitionMap(DRAWN.source, None, DRAWN.covered, DRAWN.runs)
    assert combine_back(late, {_A: 0, _B: 1}) == (NO_OFFSET, UNKNOWN)
    assert combine_back(late, {_A: 1, _B: 1}) == (2, EXACT)


def test_a_hole_that_may_hide_unread_records_makes_unknown() -> None:
    broken = PartitionMap(DRAWN.source, 0, (Covered(0, 3), Covered(4, 7)), DRAWN.runs)
    assert combine_back(broken, {_A: 2, _B: 1}) == (NO_OFFSET, UNKNOWN)
    assert combine_back(broken, {_A: 3, _B: 2}) == (6, EXACT)
    # 1 is unread, so the records in the hole lie after it.
    assert combine_back(broken, {_A: 3, _B: 0}) == (1, EXACT)


def test_a_hole_may_hide_all_that_went_to_a_target_partition() -> None:
    runs = {_A: RunTable.of([Run(2, 0, 1)])}
    assert combine_back(PartitionMap(DRAWN.source, 0, (Covered(0, 3),), runs), {_A: 1, _B: 0}) == (3, EXACT)
    for began, covered in ((None, (Covered(0, 3),)), (0, (Covered(2, 3),)), (0, (Covered(0, 1), Covered(2, 3)))):
        assert combine_back(PartitionMap(DRAWN.source, began, covered, runs), {_A: 1, _B: 0}) == (NO_OFFSET, UNKNOWN)


def test_nothing_copied() -> None:
    nothing = PartitionMap(DRAWN.source, 0, DRAWN.covered, {})
    assert combine_back(nothing, {_A: 3}) == (NO_OFFSET, NOT_REPLICATED)
    assert combine_back(DRAWN, {}) == (NO_OFFSET, NOT_REPLICATED)


@examples(150)
@given(worlds(1, 2, by_key, exactly_once=True, recopies=False), st.data())
def test_nothing_is_skipped_and_nothing_below_the_first_unread_read_again(world: World, data: st.DataObject) -> None:
    moment = data.draw(st.sampled_from(world.moments))
    mapping = map_at(world, 0, moment)
    positions = {q: data.draw(st.integers(0, moment.stable[q])) for q in range(2)}
    offset, state = combine_back(mapping, {target(q): at for q, at in positions.items()})
    if not mapping.runs:
        assert state is NOT_REPLICATED
        return
    assert state is EXACT
    copied = {s for q in range(2) for s in moment.copied.get((0, q), {})}
    read = {s for q, at in positions.items() for _, s in world.read_from(q, 0, at)}
    unread = copied - read
    assert all(s >= offset for s in unread)
    if not unread or any(s < min(unread) for s in read):
        first = min(unread, default=len(world.sources[0]))
        assert offset == max(s for s in read if s < first) + 1


@examples(150)
@given(worlds(1, 2, by_key, mappings_complete=False), st.booleans(), st.data())
def test_nothing_is_skipped_whatever_happened(world: World, began_known: bool, data: st.DataObject) -> None:
    moment = data.draw(st.sampled_from(world.moments))
    mapping = map_at(world, 0, moment, began_known)
    positions = {q: data.draw(st.integers(0, moment.logs[q])) for q in range(2)}
    offset, state = combine_back(mapping, {target(q): at for q, at in positions.items()})
    if state is EXACT:
        read = {s for q, at in positions.items() for _, s in world.read_from(q, 0, at)}
        copied = {s for q in range(2) for s in moment.copied.get((0, q), {})}
        assert all(s >= offset for s in copied - read)


@examples(150)
@given(worlds(), st.data())
def test_with_one_target_it_is_translate_back(world: World, data: st.DataObject) -> None:
    moment = data.draw(st.sampled_from(world.moments))
    mapping = map_at(world, 0, moment)
    positions = np.arange(moment.logs[0] + 1)
    back = translate_back(mapping, _A, positions, mapped_to=moment.logs[0])
    copied = moment.copied.get((0, 0), {})
    for position, answer, state in zip(positions.tolist(), back.offsets.tolist(), back.states.tolist(), strict=True):
        offset, combined_state = combine_back(mapping, {_A: position})
        assert combined_state == state
        assert not any(offset <= s < answer for s in copied), "they differ by what was not copied"
