"""Several sources in one target partition: nothing is skipped, and only what their order requires is read again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.runs import Run
from k2k_assets.mapping.algebra.cut import Feed, combine
from k2k_assets.mapping.algebra.fold import Covered
from k2k_assets.mapping.algebra.partition_map import PartitionMap, RunTable, SourcePartition
from k2k_assets.mapping.algebra.translate import NO_OFFSET, TranslationState
from k2k_assets_tests.support.memory.histories import by_key, into_one, map_at, worlds
from k2k_assets_tests.support.memory.offset_model import Moment, Route, World, target
from k2k_assets_tests.support.suite.properties import examples

EXACT, AHEAD, UNKNOWN, NOT_REPLICATED = (
    TranslationState.EXACT,
    TranslationState.AHEAD,
    TranslationState.UNKNOWN,
    TranslationState.NOT_REPLICATED,
)

_Q = target(0)


def _map(partition: int, covered: list[tuple[int, int]], runs: list[tuple[int, int, int]]) -> PartitionMap:
    table = {_Q: RunTable.of(Run(*run) for run in runs)} if runs else {}
    return PartitionMap(SourcePartition("c", "s", "sid", partition), 0, tuple(Covered(*c) for c in covered), table)


# The picture of the module's docstring: the mapping record of a4 and what follows is not committed yet.
A = _map(0, [(0, 5)], [(0, 0, 2), (2, 4, 2), (4, 7, 1)])
B = _map(1, [(0, 3)], [(0, 2, 2), (2, 6, 1)])
END = 8


def _one(*feeds: Feed, end: int = END) -> tuple[int, TranslationState]:
    answer = combine(_Q, feeds, end)
    return int(answer.offsets[0]), TranslationState(answer.states[0])


def _feed(mapping: PartitionMap, position: int, **more: Any) -> Feed:
    return Feed(mapping, np.array([position]), **more)


# -- by hand --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "answer"),
    [
        (3, 1, (3, EXACT)),
        (3, 2, (5, EXACT)),
        (0, 0, (0, EXACT)),
        (5, 3, (END, EXACT)),
        (5, 2, (6, EXACT)),
        (5, 9, (END, AHEAD)),
        (4, 9, (7, EXACT)),
        (5, NO_OFFSET, (END, EXACT)),
        (NO_OFFSET, 1, (3, EXACT)),
        (NO_OFFSET, NO_OFFSET, (NO_OFFSET, NOT_REPLICATED)),
    ],
)
def test_the_smallest_unread_record_below_the_end(a: int, b: int, answer: tuple[int, TranslationState]) -> None:
    assert _one(_feed(A, a), _feed(B, b)) == answer
    assert _one(_feed(B, b), _feed(A, a)) == answer


def test_what_is_mapped_behind_the_cut_does_not_count() -> None:
    assert _one(_feed(A, 4), _feed(B, 3), end=6) == (6, EXACT)


def test_a_source_of_which_nothing_is_covered_holds_nothing_back() -> None:
    nothing = _map(2, [], [])
    assert _one(_feed(A, 3), _feed(nothing, 0)) == (5, EXACT)
    assert _one(_feed(A, 5), _feed(nothing, 4)) == (END, AHEAD)
    assert _one(_feed(nothing, 4)) == (NO_OFFSET, NOT_REPLICATED)


def test_a_source_that_is_copied_without_mapping_makes_the_answer_unknown() -> None:
    nothing = _map(2, [], [])
    assert _one(_feed(A, 5), _feed(nothing, 3, copied_to=4)) == (NO_OFFSET, UNKNOWN)
    assert _one(_feed(A, 5), _feed(nothing, 4, copied_to=4)) == (END, AHEAD)
    assert _one(_feed(A, 5, copied_to=5), _feed(B, 3, copied_to=7)) == (NO_OFFSET, UNKNOWN)
    assert _one(_feed(A, 5, copied_to=5), _feed(B, 7, copied_to=7)) == (END, AHEAD)


def test_broken_coverage_behind_a_position_makes_the_answer_unknown() -> None:
    broken = _map(1, [(0, 1), (2, 3)], [(0, 2, 1), (2, 6, 1)])
    assert _one(_feed(A, 5), _feed(broken, 0)) == (2, EXACT)
    assert _one(_feed(A, 5), _feed(broken, 1)) == (NO_OFFSET, UNKNOWN)
    assert _one(_feed(A, 5), _feed(broken, 2)) == (6, EXACT)
    # The records in the hole were read, so it does not matter here.
    assert _one(_feed(A, 5), _feed(broken, 3)) == (END, EXACT)


def test_at_least_once_a_source_that_is_not_mapped_to_its_end_holds_the_answer() -> None:
    assert _one(_feed(A, 5, source_end=5), _feed(B, 3, source_end=3)) == (END, EXACT)
    assert _one(_feed(A, 5, source_end=5), _feed(B, 3, source_end=4)) == (7, AHEAD)
    assert _one(_feed(A, 3, source_end=5), _feed(B, 3, source_end=4)) == (5, EXACT)
    # The group has read everything, so records that are not mapped yet are not unread.
    assert _one(_feed(A, 5, source_end=5), _feed(B, 4, source_end=4)) == (END, AHEAD)


def test_at_least_once_a_source_without_any_run_holds_the_answer_at_the_log_start() -> None:
    nothing = _map(2, [], [])
    assert _one(_feed(A, 5), _feed(nothing, 0, source_end=1, floor=0)) == (0, AHEAD)
    assert _one(_feed(A, 5), _feed(nothing, 0, source_end=1)) == (NO_OFFSET, UNKNOWN)
    assert _one(_feed(A, 5), _feed(nothing, 0, source_end=0)) == (END, EXACT)


def test_many_groups_at_once() -> None:
    answer = combine(_Q, [Feed(A, np.array([3, 5, -1])), Feed(B, np.array([1, 3, 1]))], END)
    assert answer.offsets.tolist() == [3, 8, 3]
    assert answer.states.tolist() == [0, 0, 0]


# -- histories ------------------------------------------------------------------------------------------------------

_MIXED = pytest.mark.parametrize(("route", "targets"), [(into_one, 1), (by_key, 2)])


def _drawn(data: st.DataObject, world: World) -> tuple[Moment, Moment, list[int]]:
    """The moment of L, the later one of the mappings, and a group's positions; -1 where it has none."""
    at = data.draw(st.integers(0, len(world.moments) - 1))
    later = data.draw(st.integers(at, len(world.moments) - 1))
    positions = [data.draw(st.integers(-1, len(log) + 2)) for log in world.sources]
    return world.moments[at], world.moments[later], positions


def _feeds(world: World, positions: list[int], mapped: Moment, exactly_once: bool) -> list[Feed]:
    return [
        Feed(
            map_at(world, p, mapped),
            np.array([position]),
            copied_to=mapped.positions[p] if mapped.positions[p] > world.began[p] else None,
            source_end=None if exactly_once else len(world.sources[p]),
            floor=0,
        )
        for p, position in enumerate(positions)
    ]


def _skipped(world: World, q: int, positions: list[int], offset: int) -> set[tuple[int, int]]:
    unread = set().union(*(world.records_from(p, at) for p, at in enumerate(positions) if at >= 0))
    return {(p, s) for p, s in unread if world.route(p, s) == q} - set(world.read_from(q, offset))


@_MIXED
@pytest.mark.parametrize("exactly_once", [True, False])
@examples(150)
@given(data=st.data())
def test_nothing_is_skipped(route: Route, targets: int, exactly_once: bool, data: st.DataObject) -> None:
    world = data.draw(worlds(3, targets, route, exactly_once))
    stable, mapped, positions = _drawn(data, world)
    for q in range(targets):
        feeds = _feeds(world, positions, mapped, exactly_once)
        answer = combine(target(q), feeds, stable.stable[q])
        if answer.states[0] == NOT_REPLICATED:
            assert not any(feed.mapping.covered for feed in feeds if feed.positions[0] >= 0)
            continue
        assert answer.states[0] in (EXACT, AHEAD), "the mappings are complete"
        assert answer.offsets[0] <= stable.stable[q], "never beyond the log's end"
        assert not _skipped(world, q, positions, int(answer.offsets[0]))


@_MIXED
@examples(150)
@given(data=st.data())
def test_it_is_the_smallest_unread_record(route: Route, targets: int, data: st.DataObject) -> None:
    world = data.draw(worlds(3, targets, route, exactly_once=True))
    stable, mapped, positions = _drawn(data, world)
    for q in range(targets):
        answer = combine(target(q), _feeds(world, positions, mapped, True), stable.stable[q])
        unread = [
            at
            for p, position in enumerate(positions)
            for s, at in mapped.copied.get((p, q), {}).items()
            if 0 <= position <= s
        ]
        if answer.states[0] != NOT_REPLICATED:
            assert answer.offsets[0] == min([*unread, stable.stable[q]])


@_MIXED
@pytest.mark.parametrize("exactly_once", [True, False])
@examples(150)
@given(data=st.data())
def test_with_mappings_missing_nothing_is_skipped(
    route: Route, targets: int, exactly_once: bool, data: st.DataObject
) -> None:
    world = data.draw(worlds(3, targets, route, exactly_once, mappings_complete=False))
    stable, mapped, positions = _drawn(data, world)
    for q in range(targets):
        answer = combine(target(q), _feeds(world, positions, mapped, exactly_once), stable.stable[q])
        if answer.states[0] in (EXACT, AHEAD):
            assert not _skipped(world, q, positions, int(answer.offsets[0]))
