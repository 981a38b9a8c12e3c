"""What the mapping topic has lost, or what was passed over: an index answers as the whole would, or not at all."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.control.mapping_records import MappingRecord
from k2k_assets.core.runs import Run
from k2k_assets.mapping.algebra.in_memory_mapping import InMemoryMapping
from k2k_assets.mapping.algebra.lost_copies import unless_copied_anew
from k2k_assets.mapping.algebra.partition_map import PartitionMap
from k2k_assets.mapping.algebra.spread import combine_back
from k2k_assets.mapping.algebra.translate import TranslationState, translate, translate_back
from k2k_assets.mapping.index import update
from k2k_assets.mapping.index.manifest import (
    SEGMENTS,
    IndexUnusable,
)
from k2k_assets_tests.support.memory.mapping_topic import (
    LocalIndex,
    appended,
    committed,
    folded_at_once,
    histories,
    in_generations,
    mapping_record,
    routed_to,
    unique_root,
)
from k2k_assets_tests.support.memory.offset_model import target
from k2k_assets_tests.support.memory.way_back import assert_none_skipped_back
from k2k_assets_tests.support.suite.properties import examples


def test_an_index_of_which_files_are_gone_is_not_worth_what_the_topic_has_lost(index: LocalIndex) -> None:
    index.topic.write(*appended(5))
    index.update()
    shutil.rmtree(index.folder / SEGMENTS)
    index.topic.expire()
    with pytest.raises(IndexUnusable, match=r"files of it are missing, but .* Delete the directory to build it"):
        index.update()


def test_what_the_topic_lost_leaves_a_hole(index: LocalIndex) -> None:
    index.topic.write(*appended(5))
    index.update()
    index.topic.write(*appended(1, first=5))
    index.topic.expire()
    index.topic.write(*appended(3, first=6))
    manifest = index.update()
    (only,) = index.maps().values()
    assert [tuple(covered) for covered in only.covered] == [(0, 5), (6, 9)]
    assert [(gone.start, gone.end, gone.before_first_read) for gone in manifest.lost] == [(10, 12, False)]


@pytest.mark.parametrize("when", ["at once", "an update later"])
@pytest.mark.parametrize("how", ["expired", "created anew"])
def test_a_copy_of_which_the_beginning_was_lost_does_not_join_on_to_an_earlier_one(
    index: LocalIndex, when: str, how: str
) -> None:
    """What is mapped of the first copy lies in a target topic that is gone, and may all be in the second one too."""
    source = index.topic
    source.write(mapping_record((1, 0), (0, 10), [(0, 0, 10)]))
    index.update()
    source.write(mapping_record((2, 0), (0, 9), [(0, 0, 9)]))
    if how == "expired":
        source.expire()
    else:
        source.id, source.partitions = "topic-2", [[], []]
    if when == "an update later":
        index.update()
    source.write(mapping_record((2, 1), (9, 12), [(9, 9, 3)]))
    manifest = index.update()
    (only,) = index.maps().values()
    assert [tuple(covered) for covered in only.covered] == [(9, 12)]
    assert next(iter(only.runs.values())).source_end == 12, "nor does the target partition count as never filled"
    assert not manifest.doubtful
    source.write(mapping_record((3, 0), (12, 14), [(12, 12, 2)]))
    index.update()
    (only,) = index.maps().values()
    assert [tuple(covered) for covered in only.covered] == [(9, 14)]


_FORMER = mapping_record((1, 0), (0, 100), [(0, 0, 100)])


def _after_a_loss(index: LocalIndex, *records: MappingRecord) -> PartitionMap:
    """The map of what was copied first, after a loss of what came then, and of the next records."""
    index.topic.write(_FORMER)
    index.update()
    index.topic.write(mapping_record((2, 0), (60, 150), [(60, 100, 90)]))
    index.topic.expire()
    for record in records:
        index.topic.write(record)
        index.update()
    (known,) = index.maps().values()
    return replace(known, began=0)


def test_after_a_loss_the_former_copies_are_not_translated_back(index: LocalIndex) -> None:
    """A reader at 80 has not read the second copies of 60 to 79, which lie from 100 on."""
    known = _after_a_loss(index, mapping_record((3, 0), (150, 200), [(150, 190, 50)]))
    found = translate_back(known, target(0), np.array([0, 80, 99, 100, 105, 189, 190, 195, 240]))
    assert found.offsets.tolist() == [-1] * 6 + [150, 155, 200]
    combined = [combine_back(known, {target(0): position})[0] for position in (0, 80, 100, 105, 189, 195, 240)]
    assert combined == [-1] * 5 + [155, 200]


def test_former_copies_that_end_where_a_later_one_begins_do_not_join_on(index: LocalIndex) -> None:
    """The position was first left where it stood, to accept foreign records, and then set back to their end."""
    left, back = (replace(mapping_record((n, 0), (at, at)), override="by hand") for n, at in ((3, 150), (4, 100)))
    known = _after_a_loss(index, left, back, mapping_record((5, 0), (100, 200), [(100, 190, 100)]))
    found = translate_back(known, target(0), np.array([80, 100, 105, 190, 195]))
    assert found.offsets.tolist() == [-1, -1, -1, 100, 105]
    assert [combine_back(known, {target(0): position})[0] for position in (80, 100, 105, 195)] == [-1] * 3 + [105]
    nothing_new = _after_a_loss(
        LocalIndex(unique_root(index.folder)), left, back, mapping_record((5, 0), (100, 200), {1: [Run(100, 0, 100)]})
    )
    assert translate(nothing_new, target(0), np.array([100, 200])).offsets.tolist() == [-1, -1], "rightly 140"
    assert translate_back(nothing_new, target(0), np.array([100, 120])).offsets.tolist() == [-1, -1]
    assert combine_back(nothing_new, {target(0): 120, target(1): 100}) == (-1, TranslationState.UNKNOWN)


@examples(40)
@given(records=histories(partitions=1), data=st.data())
def test_after_a_loss_it_answers_as_the_whole_or_not_at_all(
    tmp_path_factory: pytest.TempPathFactory, records: list[MappingRecord], data: st.DataObject
) -> None:
    """Records were deleted before they were read; later ones are read."""
    index = LocalIndex(unique_root(tmp_path_factory.getbasetemp()))
    records = in_generations(records)
    first = data.draw(st.integers(0, len(records)))
    after = data.draw(st.integers(first, len(records)))
    index.topic.write(*records[:first])
    index.update()
    index.topic.write(*records[first:after])
    index.topic.expire()
    for record in records[after:]:
        index.topic.write(record)
        if data.draw(st.booleans()):
            index.update()
    _ensure_right_or_unknown(index, records, data)


@examples(40)
@given(records=histories(partitions=1), data=st.data())
def test_after_a_record_that_was_passed_over_it_answers_as_the_whole_or_not_at_all(
    tmp_path_factory: pytest.TempPathFactory, records: list[MappingRecord], data: st.DataObject
) -> None:
    """Some records cannot be read, and are ignored; the next ones can."""
    index = LocalIndex(unique_root(tmp_path_factory.getbasetemp()), ignore_unreadable=True)
    records = in_generations(records)
    first = data.draw(st.integers(0, max(0, len(records) - 2)))
    after = data.draw(st.integers(first + 1, max(first + 1, len(records) - 1)))
    has_key, at_once = data.draw(st.booleans()), data.draw(st.booleans())
    for number, record in enumerate(records):
        is_corrupt = first <= number < after
        key = record.key_bytes() if has_key or not is_corrupt else None
        index.topic.write_raw(key, b"{" if is_corrupt else record.value_bytes())
        if not at_once and data.draw(st.booleans()):
            index.update()
    with pytest.MonkeyPatch.context() as patch:
        # Without a limit, records are read only when the index is built from the start.
        patch.setattr(update, "MOST_BYTES", data.draw(st.sampled_from([1, 10**6, *([None] if at_once else [])])))
        index.update()
    _ensure_right_or_unknown(index, records, data)


def _ensure_right_or_unknown(index: LocalIndex, records: list[MappingRecord], data: st.DataObject) -> None:
    doubtful = index.update().doubtful
    if not records:
        return
    targets = [target(partition)._replace(topic=routed_to(records[-1])) for partition in range(3)]
    for source, known in index.maps().items():
        held = InMemoryMapping.behind(known)
        behind = PartitionMap.with_dropped(source, 0, *held.alone())
        maps = (each.reaching(records[-1].covered_to) for each in (folded_at_once(records)[source], known, behind))
        wanted, *both = (replace(each, began=0) for each in maps)
        if doubtful:  # then the commit record alone tells of the loss
            newest, commit = index.reader().newest(source), committed(records[-1])
            both = [unless_copied_anew(each, newest, commit) for each in both]
        for found in both:
            positions = np.arange(held.since if found is both[1] else 0, 40)
            for to in targets:
                right, answer = (translate(each, to, positions, 0) for each in (wanted, found))
                told = (answer.states <= TranslationState.AHEAD) & (right.states <= TranslationState.AHEAD)
                assert answer.offsets[told].tolist() == right.offsets[told].tolist()
                assert not (answer.states[right.states == TranslationState.UNKNOWN] <= TranslationState.AHEAD).any()
            assert_none_skipped_back(wanted, found, targets, data)


@pytest.mark.parametrize("key", [mapping_record((1, 0), (0, 1)).key_bytes(), b""])
@pytest.mark.parametrize("when", ["at once", "an update later"])
def test_what_was_passed_over_may_have_cancelled_all_below_the_next_record(
    index: LocalIndex, when: str, key: bytes
) -> None:
    """A way back to 40, and the copies from there on. What goes on, and another partition, are as they were."""
    index.ignore_unreadable = True
    topic = index.topic
    topic.write(mapping_record((1, 0), (0, 90), [(0, 0, 90)]), mapping_record((1, 1), (0, 10), partition=1))
    topic.write_raw(mapping_record((1, 2), (90, 95)).key_bytes(), b"{")
    topic.write(mapping_record((1, 3), (95, 100), [(95, 95, 5)]))
    topic.write_raw(key, b"{")
    if when == "an update later":
        assert index.update().doubtful
        assert [[tuple(each) for each in known.covered] for known in index.maps().values()] == [
            [(0, 90), (95, 100)],
            [(0, 10)],
        ]
    topic.write(mapping_record((3, 0), (150, 180), [(150, 212, 30)]))
    manifest = index.update()
    first, other = index.maps().values()
    assert [tuple(each) for each in first.covered] == [(150, 180)]
    assert [tuple(each) for each in other.covered] == [(0, 10)]
    assert [source[3] for source in manifest.doubtful] == ([] if key else [1])


def test_an_update_takes_one_round_whatever_it_passes_over(index: LocalIndex) -> None:
    """Somebody else writes into the mapping topic all the time; each restart is a generation of its own."""
    index.ignore_unreadable = True
    for generation in range(5):
        for sequence in range(20):
            start = 100 * generation + 5 * sequence
            record = mapping_record((generation, sequence), (start, start + 5), [(start, start, 5)])
            index.topic.write(record, replace(record, partition=1))
            index.topic.write_raw(b"", b"somebody else's")
    manifest = index.update()
    assert (manifest.number, len(manifest.segments)) == (1, 1)
    assert [[tuple(each) for each in known.covered] for known in index.maps().values()] == 2 * [[(400, 500)]]
    assert [source[3] for source in manifest.doubtful] == [0, 1]


def test_a_late_record_beside_one_that_was_passed_over_leaves_nothing_to_answer(index: LocalIndex) -> None:
    """All is read in one round then, and sorted: what lies before the unreadable one is not known."""
    index.ignore_unreadable = True
    index.topic.write(mapping_record((2, 0), (4, 6), [(4, 50, 2)]))
    index.update()
    index.topic.write(mapping_record((1, 0), (0, 4), [(0, 0, 4)]), mapping_record((1, 1), (0, 10), partition=1))
    index.topic.write_raw(mapping_record((1, 0), (0, 4)).key_bytes(), b"{")
    manifest = index.update()
    first, other = index.maps().values()
    assert not first.covered
    assert [tuple(each) for each in other.covered] == [(0, 10)]
    assert [source[3] for source in manifest.doubtful] == [0]


def test_a_late_record_is_not_worth_what_the_topic_has_lost(index: LocalIndex) -> None:
    index.topic.write(mapping_record((2, 0), (4, 6), [(4, 50, 2)]))
    index.update()
    index.topic.expire()
    index.topic.write(mapping_record((1, 0), (0, 10), [(0, 0, 10)]))
    before = index.maps()
    with pytest.raises(IndexUnusable, match=r"older than what is in it, but partition 0 .* begins at 2 now"):
        index.update()
    assert index.maps() == before
