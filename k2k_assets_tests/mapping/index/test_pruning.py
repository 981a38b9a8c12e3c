"""Pruning: whole portions, from the old end only, and never the newest of a partition that lives."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.algebra.fold import Beginning, Covered, Order
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.index import merging
from k2k_assets.mapping.index.manifest import NotedPosition, Pruned
from k2k_assets.mapping.index.portions import Portion, covered_ranges
from k2k_assets.mapping.index.pruning import noted, pruned
from k2k_assets.verification.coverage import CoveredRow, check_coverage
from k2k_assets_tests.support.memory.mapping_topic import LocalIndex, mapping_record

DAY = 24 * 60 * 60 * 1000

SOURCE = SourcePartition("c", "orders", "today", 0)
NOW = NotedPosition(topic="orders", partition=0, source_topic_id="today", position=100, records=100, began=0)


def _portion(number: int, until: int, source: SourcePartition = SOURCE) -> Portion:
    start, order = number * 10, Order(1, number)
    covered = (Covered(start, start + 10),)
    return Portion(
        source, f"{number}", "", start, start + 10, covered, order, Beginning(1, 1, start), order, until, until, 1, ()
    )


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(0, 10))
def test_what_stays_is_the_newer_end(times: list[int], expired: int) -> None:
    portions = [_portion(number, time) for number, time in enumerate(times)]
    kept, before = pruned(portions, expired, "c", [NOW])
    gone = len(portions) - len(kept)
    assert kept == portions[gone:]
    assert kept, "the newest stays whatever its age"
    assert all(portion.until < expired for portion in portions[:gone])
    assert len(kept) == 1 or kept[0].until >= expired
    assert before == ({SOURCE: gone * 10} if gone else {})


def test_former_topics_go_as_a_whole_others_keep_their_end() -> None:
    former, deleted = SOURCE._replace(topic_id="former"), SOURCE._replace(topic="deleted")
    portions = [_portion(n, 0, source) for n in (0, 1) for source in (SOURCE, former, deleted)]
    kept, before = pruned(portions, 1, "c", [NOW])
    assert [(portion.source, portion.start) for portion in kept] == [(deleted, 10), (SOURCE, 10)]
    assert before == {deleted: 10, former: 20, SOURCE: 10}


def test_the_notes_rise_and_the_coverage_check_is_content() -> None:
    portions = [_portion(number, number) for number in range(10)]
    kept, before = pruned(portions, 3, "c", [NOW])
    notes = noted([Pruned(topic="orders", partition=0, source_topic_id="today", before=10)], before)
    assert [note.before for note in notes] == [30]
    rows = [CoveredRow("orders", "today", 0, *covered) for covered in covered_ranges(kept)]
    positions_now = {TopicPartition("orders", 0): 100}
    assert check_coverage(rows, [NOW], positions_now, [], notes).passed
    assert not check_coverage(rows, [NOW], positions_now, []).passed


def test_retention_prunes_what_is_old_but_keeps_the_newest_of_each_partition(tmp_path: Path) -> None:
    index = LocalIndex(tmp_path, retention=10 * DAY)
    for day in range(30):
        index.now = day * DAY
        index.topic.write(mapping_record((1, day), (day, day + 1), [(day, 2 * day, 1)], time=day * DAY))
        if day == 3:
            index.topic.write(mapping_record((1, 3), (0, 7), [(0, 0, 7)], partition=1, time=day * DAY), partition=1)
        manifest = index.update()
    idle, busy = sorted(index.maps().items(), key=lambda item: -item[0].partition)
    assert [tuple(c) for c in idle[1].covered] == [(0, 7)], "nothing newer is known of it"
    assert [tuple(c) for c in busy[1].covered] == [(19, 30)]
    assert [(p.partition, p.before) for p in manifest.pruned] == [(0, 19)]
    assert len(manifest.segments) <= 2 * merging.SPANS_OF_RETENTION
    # Also when nothing new comes.
    index.now += 2 * DAY
    assert [(p.partition, p.before) for p in index.update().pruned] == [(0, 21)]
    assert [tuple(c) for c in index.maps()[busy[0]].covered] == [(21, 30)]


def test_a_topic_that_was_created_anew_loses_its_former_self_to_retention(tmp_path: Path) -> None:
    index = LocalIndex(tmp_path, retention=DAY)
    index.topic.write(mapping_record((1, 0), (0, 5), [(0, 0, 5)], topic_id="old"))
    index.update()
    index.topic.positions = [NotedPosition(topic="s", partition=0, source_topic_id="new", position=0, records=0)]
    index.now = 3 * DAY
    assert index.update().mapped == 0
    assert index.maps() == {}
