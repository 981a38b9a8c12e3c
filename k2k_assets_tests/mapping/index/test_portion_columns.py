"""Portions in columns agree with the algebra of portions, and unchanged ones never become a `Portion`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from k2k_assets.core.runs import Run
from k2k_assets.mapping.algebra.fold import Beginning, Covered, LateRecord, Order, Target
from k2k_assets.mapping.algebra.partition_map import RunTable, SourcePartition
from k2k_assets.mapping.index import portion_columns as columns
from k2k_assets.mapping.index import portions as algebra
from k2k_assets.mapping.index import pruning
from k2k_assets.mapping.index.manifest import NotedPosition
from k2k_assets.mapping.index.portion_table import from_table, to_table
from k2k_assets.mapping.index.portions import Portion, PortionPiece, SettingsRange
from k2k_assets_tests.support.suite.properties import examples

SOURCES = [
    SourcePartition(cluster, topic, topic_id, partition)
    for cluster in ("c", "another")
    for topic, topic_id in (("orders", "today"), ("orders", "former"), ("ördërs", "today"), ("a", "z"))
    for partition in (0, 2, 10)
]
TARGETS = [Target("t", "tid", 0), Target("t", "tid", 1), Target("u", "tid", 0)]
FEW = [*SOURCES[:2], SOURCES[-1]]


def load(_: Portion, piece: PortionPiece) -> RunTable:
    """Every record is a run of its own."""
    starts = np.arange(piece.start, piece.start + piece.rows)
    return RunTable(starts, 2 * starts, np.ones(piece.rows, np.int64))


def piece_of(target: Target, start: int, end: int) -> PortionPiece:
    return PortionPiece(target, 0, end - start, end - start, start, Run(end - 1, 2 * end - 2, 1))


@st.composite
def portions(draw: st.DrawFn, source: SourcePartition, segment: str = "s") -> Portion:
    start = draw(st.integers(0, 8))
    bounds = [start, *np.cumsum([start, *draw(st.lists(st.integers(1, 3), max_size=5))]).tolist()[1:]]
    ranges = tuple(Covered(low, high) for low, high in pairwise(bounds))
    covered = algebra.joined(each for each in ranges if draw(st.integers(0, 3)))
    into = draw(st.lists(st.sampled_from(TARGETS), unique=True, max_size=2))
    pieces = tuple(piece_of(target, *each) for target in into if ranges for each in [draw(st.sampled_from(ranges))])
    oldest = Order(draw(st.integers(0, 3)), draw(st.integers(0, 3)))
    beginning = Beginning(oldest.generation, draw(st.integers(0, oldest.generation)), start + draw(st.integers(0, 3)))
    newest = max(oldest, Order(draw(st.integers(0, 3)), draw(st.integers(0, 3))))
    since = draw(st.integers(0, 9))
    until = since + draw(st.integers(0, 9))
    by_hand = tuple(each for each in covered if draw(st.booleans()))
    settings = algebra.joined_settings(SettingsRange(*each, draw(st.sampled_from(["", "x", "y"]))) for each in covered)
    file = f"{draw(st.integers(0, 1))}.parquet" if pieces else ""
    set_at = tuple(each.start for each in by_hand)
    return Portion(
        source, segment, file, start, bounds[-1], covered, oldest, beginning, newest, since, until, 2, pieces,
        by_hand, settings, set_at,
    )  # fmt: skip


@st.composite
def tables(draw: st.DrawFn, sources: Sequence[SourcePartition] = SOURCES) -> list[Portion]:
    """What some updates leave."""
    known: list[Portion] = []
    for number in range(draw(st.integers(0, 4))):
        added = [draw(portions(at, str(number))) for at in draw(st.lists(st.sampled_from(sources), unique=True))]
        known = [p for p in known if not any(p.source == new.source and p.newest > new.oldest for new in added)]
        known = algebra.extended(known, added, load)
    return known


def test_an_update_says_what_the_algebra_says() -> None:
    late: Counter[bool] = Counter()

    @examples(150)
    @given(tables(FEW), st.data())
    def compare(before: list[Portion], data: st.DataObject) -> None:
        added = [data.draw(portions(at, "new")) for at in data.draw(st.lists(st.sampled_from(FEW), unique=True))]
        doubtful = data.draw(st.sets(st.sampled_from(FEW)))
        try:
            wanted = algebra.extended(before, added, load, doubtful)
        except LateRecord:
            late[True] += 1
            with pytest.raises(LateRecord):
                columns.extended(to_table(before), to_table(added), load, doubtful)
            return
        late[False] += 1
        found = columns.extended(to_table(before), to_table(added), load, doubtful)
        assert from_table(found) == wanted
        assert found.schema == to_table([]).schema

    compare()
    assert late[True]
    assert late[False]


@examples(100)
@given(tables(), st.integers(0, 20), st.data())
def test_pruning_says_what_the_algebra_says(before: list[Portion], expired: int, data: st.DataObject) -> None:
    positions = [
        NotedPosition(topic=at.topic, partition=at.partition, source_topic_id=at.topic_id, position=1, records=1)
        for at in data.draw(st.lists(st.sampled_from(SOURCES), unique_by=lambda at: (at.topic, at.partition)))
    ]
    kept, gone = columns.pruned(to_table(before), expired, "c", positions)
    wanted, wanted_gone = pruning.pruned(before, expired, "c", positions)
    assert (from_table(kept), gone) == (wanted, wanted_gone)


@examples(100)
@given(tables())
def test_what_is_summed_up(known: list[Portion]) -> None:
    """Sums and sets by columns are those of the portions one by one."""
    rows = to_table(known)
    assert columns.runs_of(rows).tolist() == [portion.runs for portion in known]
    assert columns.mapped_of(rows).tolist() == [portion.mapped for portion in known]
    runs: Counter[str] = Counter()
    for portion in known:
        runs[portion.segment] += portion.runs
    assert columns.by_segment(rows, columns.runs_of(rows)) == runs
    assert columns.files_of(rows) == {(portion.segment, portion.file) for portion in known if portion.file}
    assert columns.sources_of(rows) == [portion.source for portion in known]


@pytest.mark.slow
@examples(100)
@given(tables())
def test_coverage_and_what_feeds_a_target(known: list[Portion]) -> None:
    grouped = algebra.by_source(known)
    wanted = [
        (*source, *covered, *of_source[-1].newest)
        for source, of_source in grouped.items()
        for covered in algebra.covered_ranges(of_source)
    ]
    found = columns.coverage(to_table(known))
    assert list(zip(*(column.to_pylist() for column in found.columns), strict=True)) == wanted
    feeding = Counter(target for of_source in grouped.values() for target, _ in algebra.by_target(of_source))
    assert columns.shared_targets(to_table(known)) == {target for target, times in feeding.items() if times > 1}


@examples(50)
@given(tables())
def test_single_source_partitions_are_looked_up(known: list[Portion]) -> None:
    grouped = algebra.by_source(known)
    looked_up = columns.PortionsBySource(to_table(known))
    assert looked_up.sources() == list(grouped)
    assert {source: looked_up.of(source) for source in SOURCES if source in grouped} == grouped
    assert looked_up.of(SourcePartition("nowhere", "", "", 0)) == []


@examples(50)
@given(tables(), st.sets(st.sampled_from(["0", "1", "2", "3"])))
def test_a_merged_segment_takes_the_place_of_others(known: list[Portion], old: set[str]) -> None:
    # Two of the same order are as good in either order.
    assume(len({(portion.source, portion.newest, portion.start) for portion in known}) == len(known))
    rest = [portion for portion in known if portion.segment not in old]
    merged = [portion for portion in known if portion.segment in old]
    rows = to_table(known)
    assert from_table(rows.filter(columns.of_segments(rows, old))) == merged
    assert columns.replaced(rows, old, to_table(merged[::-1])) == rows
    assert from_table(columns.replaced(rows, old, to_table([]))) == rest


def test_only_what_changes_becomes_a_portion(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[SourcePartition] = []

    def noted(table: pa.Table) -> list[Portion]:
        made.extend(columns.sources_of(table))
        return from_table(table)

    monkeypatch.setattr(columns, "from_table", noted)
    rows = to_table([_simple(source, (0, 10), 1) for source in SOURCES])
    further = columns.extended(rows, to_table([_simple(source, (10, 20), 2) for source in SOURCES]), load)
    assert (len(further), made) == (2 * len(SOURCES), [])
    again = columns.extended(further, to_table([_simple(SOURCES[0], (5, 20), 3)]), load)
    assert (len(again), made) == (len(further), 3 * SOURCES[:1])
    made.clear()
    positions: list[Any] = []
    assert columns.pruned(again, 2, "c", positions) == (again, {})
    assert made == []


def _simple(source: SourcePartition, covered: tuple[int, int], number: int) -> Portion:
    order = Order(1, number)
    pieces = (piece_of(TARGETS[0], *covered),)
    return Portion(
        source,
        str(number),
        "f",
        *covered,
        (Covered(*covered),),
        order,
        Beginning(order.generation, 1, covered[0]),
        order,
        5,
        5,
        1,
        pieces,
    )
