"""Updates of an index without Kafka and Spark: one build or many give the same index."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.control import mapping_records
from k2k_assets.control.mapping_records import MappingRecord
from k2k_assets.mapping.index import merging, update
from k2k_assets.mapping.index.manifest import (
    SEGMENTS,
    IndexUnusable,
    Manifest,
    NotedPosition,
    switch,
)
from k2k_assets.mapping.index.portion_table import from_table, read_portions
from k2k_assets.mapping.index.portions import set_by_hand
from k2k_assets.mapping.index.roots import IndexRoot
from k2k_assets_tests.support.memory.mapping_topic import (
    LocalIndex,
    appended,
    folded_at_once,
    histories,
    mapping_record,
    unique_root,
)
from k2k_assets_tests.support.suite.properties import examples


def _set_to(order: tuple[int, int], offset: int) -> MappingRecord:
    return replace(mapping_record(order, (offset, offset)), override="by hand")


def test_where_a_position_was_set_back_is_known_whenever_the_index_is_updated(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The former copies lie on the target below the new ones; a check must not take them for faults."""
    written = [
        *appended(6),
        _set_to((2, 1), 4),
        *(mapping_record((3, n), (n, n + 1), [(n, 20 + n, 1)]) for n in range(4, 8)),
    ]
    for number in range(len(written)):
        index = LocalIndex(unique_root(tmp_path_factory.getbasetemp()))
        for records in (written[:number], written[number:]):
            for record in records:
                index.topic.write(record)
            manifest = index.update()
        assert set_by_hand(from_table(read_portions(index.root, manifest.directory))) == (4,), number


@examples(20)
@given(records=histories(), data=st.data())
def test_bit_by_bit_it_is_what_one_fold_of_all_says(
    tmp_path_factory: pytest.TempPathFactory, records: list[MappingRecord], data: st.DataObject
) -> None:
    index = LocalIndex(unique_root(tmp_path_factory.getbasetemp()))
    with pytest.MonkeyPatch.context() as patch:
        # Segments are merged early, and a round reads a few records only.
        patch.setattr(merging, "MOST_OF_A_TIER", data.draw(st.sampled_from([2, 3, 100])))
        patch.setattr(update, "MOST_BYTES", data.draw(st.sampled_from([1, 600, 10**6])))
        patch.setattr(mapping_records, "MOST_RUNS", data.draw(st.sampled_from([1, 2, 100])))
        index.update()
        left = records
        while left:
            count = data.draw(st.integers(1, len(left)))
            written, left = left[:count], left[count:]
            # All records of a source partition are in one partition of the topic, by their key.
            for record in written:
                index.topic.write(*record.pieces(), partition=record.partition)
            index.update()
    known = [MappingRecord.parse(m.key(), m.value()) for messages in index.topic.partitions for m in messages]
    assert index.maps() == folded_at_once(known) == folded_at_once(records)
    manifest = index.update()
    assert manifest.records_read == len(known)
    assert manifest.mapped == sum(int(t.counts.sum()) for m in index.maps().values() for t in m.runs.values())


@examples(10)
@given(records=histories(), data=st.data())
def test_records_in_any_order_are_put_right(
    tmp_path_factory: pytest.TempPathFactory, records: list[MappingRecord], data: st.DataObject
) -> None:
    index = LocalIndex(unique_root(tmp_path_factory.getbasetemp()))
    for record in data.draw(st.permutations(records)):
        index.topic.write(record, partition=data.draw(st.integers(0, 1)))
        if data.draw(st.booleans()):
            index.update()
    index.update()
    assert index.maps() == folded_at_once(records)


def test_an_update_adds_a_segment_and_leaves_the_others(index: LocalIndex) -> None:
    index.topic.write(*appended(3))
    first = index.update()
    files = {path: path.stat().st_mtime_ns for path in (index.folder / SEGMENTS).rglob("*.parquet")}
    index.topic.write(*appended(3, first=3))
    second = index.update()
    assert [s.name for s in second.segments][:1] == [s.name for s in first.segments]
    assert len(second.segments) == 2
    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert (first.runs, second.runs, second.mapped, second.records_read) == (3, 6, 6, 6)
    index.topic.write(mapping_record((1, 99), (0, 9), [(0, 0, 9)], group="another"))
    assert index.update().records_read == 6


def test_nothing_new_writes_nothing_but_the_positions(index: LocalIndex) -> None:
    index.topic.write(*appended(3))
    before = index.update()
    index.topic.positions = [
        NotedPosition(topic="s", partition=0, source_topic_id="sid", position=3, records=3, began=0)
    ]
    after = index.update()
    assert after.directory == before.directory
    assert (before.positions, after.positions) == ([], index.topic.positions)
    (source,) = index.reader().sources()
    assert index.reader().partition_map(source).began == 0


def test_segments_stay_few_and_no_run_is_lost(index: LocalIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_TIERS", (2, 8, 32))
    monkeypatch.setattr(merging, "SEALED_RUNS", 32)
    most, count = 0, 50
    for number in range(count):
        index.topic.write(*appended(1, first=number))
        most = max(most, len(index.update().segments))
    assert most <= 3 * merging.MOST_OF_A_TIER + count // 32
    assert index.maps() == folded_at_once(appended(count))


def test_a_recopy_of_everything_leaves_no_old_segment(index: LocalIndex) -> None:
    index.topic.write(*appended(5))
    index.update()
    index.topic.write(mapping_record((2, 0), (0, 5), [(0, 100, 5)]))
    manifest = index.update()
    assert (len(manifest.segments), manifest.runs, manifest.mapped) == (1, 1, 5)


def test_a_backlog_is_read_in_rounds_that_a_crash_does_not_undo(
    index: LocalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update, "MOST_BYTES", 600)
    index.topic.write(*appended(20))
    index.topic.positions = [NotedPosition(topic="s", partition=0, source_topic_id="sid", position=20, records=20)]
    switched: list[Manifest] = []

    def crash_at_the_third(root: IndexRoot, manifest: Manifest) -> None:
        if len(switched) == 2:
            raise KeyboardInterrupt
        switch(root, manifest)
        switched.append(manifest)

    with monkeypatch.context() as patch:
        patch.setattr(update, "switch", crash_at_the_third)
        with pytest.raises(KeyboardInterrupt):
            index.update()
    # Only the last round claims that it has the mappings of these positions.
    assert [manifest.positions for manifest in switched] == [[], []]
    read = switched[-1].records_read
    assert 0 < read < 20
    last = index.update()
    assert (last.records_read, last.positions) == (20, index.topic.positions)
    assert index.maps() == folded_at_once(appended(20))


def test_a_mapping_topic_that_was_created_anew_adds_to_the_index(index: LocalIndex) -> None:
    index.topic.write(*appended(5))
    index.update()
    index.topic.id, index.topic.partitions = "topic-2", [[], []]
    index.topic.write(*appended(3, first=5))
    assert index.update().earlier_topics == ["topic-1"]
    assert index.maps() == folded_at_once(appended(8))
    index.topic.write(mapping_record((0, 0), (0, 1), [(0, 0, 1)]))
    with pytest.raises(IndexUnusable, match="created anew since"):
        index.update()
