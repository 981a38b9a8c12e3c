"""The tasks of the DataFrame function, batch by batch, against single look-ups; no Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from k2k_assets.control.mapping_records import MappingRecord
from k2k_assets.core.errors import Hidden
from k2k_assets.core.runs import Run
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.algebra.in_memory_mapping import Placed
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.algebra.translate import STATE_LABELS
from k2k_assets.mapping.index import IndexReader
from k2k_assets.mapping.index.manifest import NotedPosition
from k2k_assets.mapping.index.portion_table import read_portions
from k2k_assets.mapping.live.mapping_messages import RecordsRead
from k2k_assets.mapping.live.not_indexed import MappedFrom, first_mapped
from k2k_assets.translation import frame_tasks
from k2k_assets.translation.answers import nowhere, on_source, on_target
from k2k_assets.translation.frame_tasks import FrameTask, IndexMaps
from k2k_assets.translation.log_ends import NOT_KNOWN
from k2k_assets.translation.routes import Routes, Standing
from k2k_assets_tests.support.memory.mapping_topic import (
    CLUSTERS,
    GROUP,
    LocalIndex,
    committed,
    folded_at_once,
    histories,
    local,
    mapping_record,
    unique_root,
)
from k2k_assets_tests.support.memory.offset_model import target
from k2k_assets_tests.support.suite.properties import examples

ROUTES = {
    same: Routes(
        CLUSTERS[0], {"s": "t"}, frozenset(() if same else "s"), Standing({"s": "sid"}, {}), Standing({"t": "tid"}, {})
    )
    for same in (True, False)
}
Row = tuple[Any, ...]


def _task(root: Path, records: list[MappingRecord], same: bool = True, reverse: bool = False) -> FrameTask:
    index = LocalIndex(unique_root(root))
    index.topic.write(*records)
    index.topic.positions = [
        NotedPosition(topic="s", partition=p, source_topic_id="sid", position=0, records=0, began=0) for p in range(2)
    ]
    return FrameTask(index.root, index.update(), ROUTES[same], reverse)


def _batch(rows: list[Row]) -> pa.RecordBatch:
    names = ("topic", "partition", "offset", "note")
    types = (pa.string(), pa.int32(), pa.int64(), pa.string())
    columns = [pa.array([row[n] for row in rows], kind) for n, kind in enumerate(types)]
    return pa.RecordBatch.from_arrays(columns, names=names)


def _run(task: FrameTask, *batches: list[Row]) -> list[Row]:
    out = task.run([_batch(rows) for rows in batches])
    return [tuple(row.values()) for batch in out for row in batch.to_pylist()]


RECORD = mapping_record((1, 1), (0, 9), [(0, 100, 4), (6, 110, 3)])


def test_the_rows_come_out_in_their_order_with_all_their_columns(tmp_path: Path) -> None:
    task = _task(tmp_path, [RECORD])
    asked = [("s", 0, 12, "x"), ("s", 0, 3, "y"), ("s", 1, 0, "z"), ("other", 0, 3, None), ("s", 0, 5, "x")]
    assert _run(task, asked, [], asked[:1]) == [
        ("s", 0, 12, "x", "t", 0, 113, "ahead"),
        ("s", 0, 3, "y", "t", 0, 103, "exact"),
        ("s", 1, 0, "z", "t", 1, None, "not replicated"),
        ("other", 0, 3, None, None, None, None, "not replicated"),
        ("s", 0, 5, "x", "t", 0, 110, "exact"),
        ("s", 0, 12, "x", "t", 0, 113, "ahead"),
    ]


def test_rows_with_a_null_have_no_answer(tmp_path: Path) -> None:
    asked = [(None, 0, 3, "a"), ("s", None, 3, "b"), ("s", 0, None, "c"), ("s", 0, 3, "d")]
    answers = [row[4:] for row in _run(_task(tmp_path, [RECORD]), asked)]
    assert answers == [(None, None, None, "not replicated")] * 3 + [("t", 0, 103, "exact")]


def test_back_again(tmp_path: Path) -> None:
    """In reverse the columns are those of the source, and partitions that are no copies have no answer."""
    task = _task(tmp_path, [RECORD], reverse=True)
    batch = next(task.run([_batch([("t", 0, 103, "x"), ("t", 0, 105, "y"), ("t", 7, 1, "z"), ("s", 0, 1, "z")])]))
    assert batch.schema.names[4:] == ["source_topic", "source_partition", "source_offset", "state"]
    assert [tuple(row.values())[4:] for row in batch.to_pylist()] == [
        ("s", 0, 3, "exact"),
        ("s", 0, 4, "exact"),
        (None, None, None, "not replicated"),
        (None, None, None, "not replicated"),
    ]


def test_a_source_topic_that_was_deleted_is_not_come_back_to(tmp_path: Path) -> None:
    old = mapping_record((1, 1), (0, 4), [(0, 50, 4)], topic_id="old")
    rows = _run(_task(tmp_path, [old, RECORD], reverse=True), [("t", 0, 101, "")])
    assert [row[4:] for row in rows] == [("s", 0, 1, "exact")]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("hidden", ["s", "t"])
def test_of_a_topic_that_may_not_be_seen_nothing_is_known(tmp_path: Path, hidden: str, reverse: bool) -> None:
    """Be it the one that is asked for, or the one on the other side."""
    routes, nothing = ROUTES[True], Standing({}, {}, hidden={hidden: Hidden("no Describe", hidden)})
    routes = replace(routes, source=nothing) if hidden == "s" else replace(routes, target=nothing)
    task = replace(_task(tmp_path, [RECORD], reverse=reverse), routes=routes)
    rows = _run(task, [("t", 0, 103, "") if reverse else ("s", 0, 3, ""), ("other", 0, 3, "")])
    assert [row[6:] for row in rows] == [(None, "unknown"), (None, "not replicated")]


def test_a_row_comes_out_once_for_each_partition_that_its_own_goes_to(tmp_path: Path) -> None:
    record = mapping_record((1, 1), (0, 4), {0: [Run(0, 0, 1)], 2: [Run(1, 5, 3)]})
    rows = _run(_task(tmp_path, [record], same=False), [("s", 0, 1, "x"), ("s", 0, 0, "y")])
    assert rows == [
        ("s", 0, 1, "x", "t", 0, 1, "exact"),
        ("s", 0, 1, "x", "t", 2, 5, "exact"),
        ("s", 0, 0, "y", "t", 0, 0, "exact"),
        ("s", 0, 0, "y", "t", 2, 5, "exact"),
    ]


def test_what_was_copied_without_mappings_is_unknown_not_ahead(tmp_path: Path) -> None:
    task = _task(tmp_path, [RECORD])
    positions = [task.manifest.positions[0].model_copy(update={"position": 20})]
    task.manifest = task.manifest.model_copy(update={"positions": positions})
    rows = _run(task, [("s", 0, 8, ""), ("s", 0, 15, "")])
    assert [row[6:] for row in rows] == [(112, "exact"), (None, "unknown")]


@pytest.mark.parametrize(
    ("generation", "since", "told"),
    [
        (1, None, [(102, "exact"), (113, "exact")]),
        (3, None, [(None, "unknown")] * 2),
        (3, 2, [(None, "unknown")] * 2),
        (3, 1, [(102, "exact"), (113, "exact")]),
    ],
)
@pytest.mark.parametrize("how", ["deleted", "passed over"])
def test_where_another_instance_may_have_copied_again_nothing_is_known(
    tmp_path: Path, how: str, generation: int, since: int | None, told: list[Row]
) -> None:
    """Mapping records were lost, and no later one has told what they changed."""
    task = _task(tmp_path, [RECORD])
    reader = IndexReader.of(task.root, task.manifest, read_portions(local(task.root), task.manifest.directory))
    source = SourcePartition(CLUSTERS[0], "s", "sid", 0)
    readings = [RecordsRead({}, {RECORD.key()})]
    found = first_mapped(reader, {source}, ()) if how == "deleted" else first_mapped(reader, (), readings)
    assert found == {source: MappedFrom(2**62, is_doubtful=True)}
    commit = committed(replace(RECORD, generation=generation, forward_since=since))
    task.mapped_from, task.copied = found, {source: commit}
    assert [row[6:] for row in _run(task, [("s", 0, 2, ""), ("s", 0, 9, "")])] == told
    task.reverse = True
    assert [row[7] for row in _run(task, [("t", 0, 102, "")])] == [told[0][1]]


def test_beyond_the_log_of_the_source_nobody_knows(tmp_path: Path) -> None:
    task = replace(_task(tmp_path, [RECORD]), source_logs={TopicPartition("s", 0): 12})
    rows = _run(task, [("s", 0, 12, ""), ("s", 0, 13, "")])
    assert [row[6:] for row in rows] == [(113, "ahead"), (None, "unknown")]


def test_on_the_way_back_the_log_of_the_source_ends_where_it_was_cut_off(tmp_path: Path) -> None:
    task = replace(_task(tmp_path, [RECORD], reverse=True), source_logs={TopicPartition("s", 0): 3})
    rows = _run(task, [("t", 0, 102, ""), ("t", 0, 112, "")])
    assert [row[6:] for row in rows] == [(2, "exact"), (3, "exact")]
    for reverse, asked in ((False, ("s", 0, 0, "")), (True, ("t", 0, 100, ""))):
        task = replace(_task(tmp_path, [RECORD], reverse=reverse), source_logs={TopicPartition("s", 0): NOT_KNOWN})
        assert [row[6:] for row in _run(task, [asked])] == [(None, "unknown")]


def test_copies_that_the_target_has_lost_tell_nothing(tmp_path: Path) -> None:
    task = replace(_task(tmp_path, [RECORD]), cuts={target(0): 102})
    rows = _run(task, [("s", 0, 1, ""), ("s", 0, 2, ""), ("s", 0, 9, "")])
    assert [row[6:] for row in rows] == [(101, "exact"), (None, "unknown"), (None, "unknown")]
    task = replace(_task(tmp_path, [RECORD], reverse=True), cuts={target(0): 102})
    assert [row[6:] for row in _run(task, [("t", 0, 102, ""), ("t", 0, 111, "")])] == [(2, "exact"), (None, "unknown")]


@pytest.mark.parametrize(
    ("start", "answers"),
    [
        (9, [(100, "exact"), (103, "exact"), (110, "exact"), (113, "exact"), (113, "ahead")]),  # the copy has gone on
        (3, [(100, "exact"), (103, "exact"), (103, "ahead"), (103, "ahead"), (103, "ahead")]),
        (0, [(None, "unknown"), (100, "ahead"), (100, "ahead"), (100, "ahead"), (100, "ahead")]),
    ],
)
def test_where_the_copy_was_set_back_the_index_answers_no_further(
    tmp_path: Path, start: int, answers: list[tuple[int | None, str]]
) -> None:
    """What was copied there lies elsewhere now, or is lost; what is copied in its place lies behind it."""
    task = _task(tmp_path, [RECORD])
    position = task.manifest.positions[0].model_copy(update={"position": 9})
    task.manifest = task.manifest.model_copy(update={"positions": [position]})
    there = Standing({"t": "tid"}, {TopicPartition("t", 0): 100}, ends={TopicPartition("t", 0): 200})
    source = SourcePartition(CLUSTERS[0], "s", "sid", 0)
    task = replace(task, routes=replace(task.routes, target=there), mapped_from={source: MappedFrom(start)})
    assert [row[6:] for row in _run(task, [("s", 0, n, "") for n in (0, 3, 6, 9, 12)])] == answers


@pytest.mark.parametrize("how", ["expired", "created anew"])
@pytest.mark.parametrize(
    ("order", "since", "goes_on"),
    [((1, 9), None, True), ((3, 9), None, False), ((3, 9), 2, False), ((3, 9), 1, True), ((0, 9), None, False)],
)
def test_after_a_loss_the_index_answers_only_if_the_next_record_surely_goes_on(
    tmp_path: Path, how: str, order: tuple[int, int], since: int | None, goes_on: bool
) -> None:
    """Lost are a way back to 40 and the copies from there on; the next index forgets all below 150 as well."""
    index = LocalIndex(unique_root(tmp_path))
    index.topic.positions = [
        NotedPosition(topic="s", partition=0, source_topic_id="sid", position=100, records=0, began=0)
    ]
    index.topic.write(mapping_record((1, 0), (0, 100), [(0, 0, 100)]))
    index.update()
    index.topic.write(mapping_record((2, 0), (40, 150), [(40, 101, 110)]))
    if how == "expired":
        index.topic.expire()
        index.update()
    else:
        index.topic.id, index.topic.partitions = "topic-2", [[], []]
    reader = index.reader()
    record = replace(mapping_record(order, (150, 180), [(150, 212, 30)]), forward_since=since)
    source = SourcePartition(CLUSTERS[0], "s", "sid", 0)
    later = replace(record, sequence=10, covered_from=180, covered_to=190, targets=())
    placed = [Placed(0, offset, each) for offset, each in enumerate([record, later])]
    readings = [RecordsRead({(GROUP, source): placed}, ())]
    found = first_mapped(reader, reader.doubtful(index.topic.id), readings)
    assert found == {source: MappedFrom(150, after_loss=not goes_on)}
    one_by_one = [RecordsRead({(GROUP, source): [each]}, ()) for each in placed]
    assert first_mapped(reader, reader.doubtful(index.topic.id), one_by_one) == found
    start = {TopicPartition("t", 0): 0}
    routes = replace(ROUTES[True], target=Standing({"t": "tid"}, start, ends={TopicPartition("t", 0): 242}))
    task = FrameTask(index.root, reader.manifest, routes, reverse=False, mapped_from=found)
    answers = [row[6:] for row in _run(task, [("s", 0, n, "") for n in (0, 10, 120, 160)])]
    unknown = (None, "unknown")
    as_indexed = [(0, "exact"), (10, "exact"), (100, "ahead"), (100, "ahead")]
    assert answers == (as_indexed if goes_on else [unknown] * 4)
    back = [row[6:] for row in _run(replace(task, reverse=True), [("t", 0, n, "") for n in (10, 99)])]
    assert back == ([(10, "exact"), (99, "exact")] if goes_on else [unknown] * 2)


@pytest.mark.parametrize("goes_on", [False, True])
def test_behind_a_record_that_was_passed_over_the_index_answers_only_if_the_next_one_surely_goes_on(
    tmp_path: Path, goes_on: bool
) -> None:
    index = LocalIndex(unique_root(tmp_path))
    index.topic.write(mapping_record((1, 0), (0, 100), [(0, 0, 100)]))
    index.update()
    source = SourcePartition(CLUSTERS[0], "s", "sid", 0)
    before, after = mapping_record((1, 1), (100, 120)), mapping_record((1 if goes_on else 3, 3), (130, 140))
    readings = [
        RecordsRead({(GROUP, source): [Placed(0, 2, before)]}, {before.key()}),
        RecordsRead({(GROUP, source): [Placed(0, 6, after)]}, {None}),
    ]
    reader = index.reader()
    assert first_mapped(reader, (), readings[:1]) == {source: MappedFrom(100, is_doubtful=True)}
    assert first_mapped(reader, (), readings) == {source: MappedFrom(100, after_loss=not goes_on, is_doubtful=True)}


def test_it_holds_no_more_than_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [(offset, offset, 1) for offset in range(0, 20, 2)]
    task = _task(tmp_path, [mapping_record((1, p), (0, 20), runs, partition=p) for p in range(2)])
    monkeypatch.setattr(frame_tasks, "MOST_RUNS", 15)
    maps = IndexMaps(task.root, task.manifest, {}, {}, {})
    sources = sorted(source for of_target in maps.sources.values() for source in of_target)
    assert [source.partition for source in sources] == [0, 1]
    for source in (*sources, *sources, sources[1]):
        assert maps.map_of(source).covered_end == 20
        assert list(maps._kept) == [source]


@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=histories(), same=st.booleans(), data=st.data())
def test_equals_single_look_ups(tmp_path: Path, records: list[MappingRecord], same: bool, data: st.DataObject) -> None:
    place = st.tuples(st.sampled_from(["s", "t"]), st.integers(0, 2), st.integers(0, 60), st.just(""))
    asked = data.draw(st.lists(place, max_size=30))
    maps = {source.partition: replace(mapping, began=0) for source, mapping in folded_at_once(records).items()}
    for reverse in (False, True):
        wanted = []
        for topic, partition, offset, _ in asked:
            at = np.array([offset])
            answers = [nowhere(1)]
            if reverse and topic == "t":
                answers = on_source(ROUTES[same], [maps[p] for p in sorted(maps)], target(partition), at)
            elif not reverse and topic == "s":
                mapping = maps.get(partition)
                answers = on_target(ROUTES[same], mapping.reaching(0), at) if mapping else answers
            for answer in answers:
                found = int(answer.offsets[0])
                place_of = answer.place or (None, None)
                state = STATE_LABELS[answer.states[0]]
                wanted.append((topic, partition, offset, "", *place_of, None if found < 0 else found, state))
        rows = _run(_task(tmp_path, records, same, reverse), asked)
        # An unknown partition has no answer; this test does not ask for its target.
        assert [_bare(row) for row in rows] == [_bare(row) for row in wanted]


def _bare(row: Row) -> Row:
    return (*row[:4], *row[6:]) if row[-1] == "not replicated" else row


def test_partitions_are_told_apart() -> None:
    rows = [("s", 0, 1, ""), ("t", 0, 2, ""), ("s", 1, 3, ""), ("s", 0, 4, "")]
    found = {asked: of_group.tolist() for asked, of_group in frame_tasks._groups(_batch(rows))}
    assert found == {TopicPartition("s", 0): [0, 3], TopicPartition("t", 0): [1], TopicPartition("s", 1): [2]}
