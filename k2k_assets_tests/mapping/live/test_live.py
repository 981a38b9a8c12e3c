"""Following the mappings on a real topic: index and tail, holes, dropped runs, and a topic that was created again."""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from k2k_assets.control.control_topics import ensure_control_topics
from k2k_assets.core.errors import ClusterUnreachable, Refused
from k2k_assets.core.home import index_directory
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.topic_follower import Deleted, Replaced, TopicFollower
from k2k_assets.mapping.algebra.fold import Covered
from k2k_assets.mapping.algebra.partition_map import PartitionMap
from k2k_assets.mapping.algebra.translate import TranslationState, translate, translate_back
from k2k_assets.mapping.index import update_index
from k2k_assets.mapping.live.live import LiveMappings
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import (
    OpenTransaction,
    Record,
    add_partitions,
    create_topic,
    delete_records,
    delete_topic,
    end_offsets,
    produce,
    read_all,
    unique,
)
from k2k_assets_tests.support.copies.hand_copy import HandCopy, hand_copy
from k2k_assets_tests.support.memory.mapping_topic import local

pytestmark = pytest.mark.integration


@pytest.fixture
def copied(clusters: KafkaSandbox, topic: str, tmp_path: Path) -> Callable[..., HandCopy]:
    """Makes a copy by hand, of a pipeline with some settings of `offsetMapping.retention`."""

    def make(**retention: object) -> HandCopy:
        kept = {"schedule": "1 millisecond", **retention}
        return hand_copy(clusters, tmp_path, topic, offsetMapping={"topic": unique("mappings"), "retention": kept})

    return make


@contextmanager
def live(copy: HandCopy, pipeline: Pipeline | None = None, others: bool = False) -> Iterator[LiveMappings]:
    with LiveMappings(pipeline or copy.pipeline, copy.source.cluster_id(), copy.target, others) as mappings:
        mappings.catch_up([])
        yield mappings


def of(mappings: LiveMappings, topic: str, partition: int = 0, lowest: int | None = None) -> PartitionMap:
    [source] = [s for s in mappings.sources() if (s.topic, s.partition) == (topic, partition)]
    return mappings.map_of(source, lowest)


def runs(mapping: PartitionMap) -> list[tuple[int, int, int]]:
    return [(source, target, count) for table in mapping.runs.values() for source, target, count in table]


def answers(mapping: PartitionMap, *positions: int) -> list[tuple[int, str]]:
    [target] = mapping.runs
    found = translate(mapping, target, np.array(positions))
    pairs = zip(found.offsets.tolist(), found.states.tolist(), strict=True)
    return [(offset, TranslationState(state).label) for offset, state in pairs]


def test_what_is_written_is_followed(copied: Callable[..., HandCopy], topic: str) -> None:
    copy = copied()
    for partition in range(2):
        produce(copy.target.servers, topic, [b"there"] * 310, partition)
    copy.mapping(topic, (0, 5), [(0, 100, 5)])
    copy.commit(topic, 5)
    with live(copy) as mappings:
        first = of(mappings, topic)
        assert (runs(first), first.covered) == ([(0, 100, 5)], (Covered(0, 5),))
        copy.mapping(topic, (5, 9), [(5, 105, 3)])
        copy.mapping(topic, (0, 4), [(1, 7, 2)], partition=1)
        copy.mapping(topic, (0, 9), [(0, 0, 9)], group="another")
        cut = mappings.catch_up([topic, "not-there"])
        second = of(mappings, topic)
        assert runs(second) == [(0, 100, 8)]
        assert runs(first) == [(0, 100, 5)], "what was handed out stays as it was"
        assert runs(of(mappings, topic, 1)) == [(1, 7, 2)]
        assert set(cut.topic_ids) == {topic}
        assert cut.starts == {TopicPartition(topic, p): 0 for p in range(2)}
        assert cut.stable == {TopicPartition(topic, p): 310 for p in range(2)}
        mappings.catch_up([])
        assert of(mappings, topic).runs is second.runs, "nothing changed, so nothing is made anew"
        copy.mapping(topic, (6, 8), [(6, 200, 2)], generation=2)
        copy.mapping(topic, (4, 7), [(4, 300, 3)], partition=1, generation=0)  # read later, written before
        mappings.catch_up([])
        assert runs(of(mappings, topic)) == [(0, 100, 6), (6, 200, 2)]
        assert runs(of(mappings, topic, 1)) == [(1, 7, 2)], "the older record was cancelled by the newer one"


def test_an_open_transaction_is_waited_for(copied: Callable[..., HandCopy], topic: str) -> None:
    copy = copied()
    copy.mapping(topic, (0, 5), [(0, 100, 5)])
    with live(copy) as mappings:
        hanging = OpenTransaction(copy.target.servers, copy.pipeline.offset_mapping.topic, [Record(b"x", b"y")])
        with pytest.raises(ClusterUnreachable, match=r"was not read to its end: .* a transaction is open there"):
            mappings.catch_up([], patience=0.5)
        hanging.abort()
        copy.mapping(topic, (5, 6), [(5, 105, 1)])
        mappings.catch_up([])
        assert runs(of(mappings, topic)) == [(0, 100, 6)]


def test_what_is_missing_is_a_hole(
    copied: Callable[..., HandCopy], topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    copy = copied()
    mapping_topic = copy.pipeline.offset_mapping.topic
    copy.mapping(topic, (0, 5), [(0, 100, 5)])
    copy.mapping(topic, (5, 8), [(5, 105, 3)])
    delete_records(copy.target.servers, mapping_topic, 0, end_offsets(copy.target.servers, mapping_topic)[0])
    copy.mapping(topic, (8, 10), [(8, 108, 2)])
    copy.commit(topic, 12)
    with caplog.at_level(logging.WARNING, "k2k.mapping"), live(copy) as mappings:
        found = of(mappings, topic)
        assert found.covered == (Covered(8, 10), Covered(12, 12))
        assert "were deleted before they were read" in caplog.text
        unknown = (-1, "unknown")
        assert answers(found, 7, 8, 9, 10, 11, 12) == [unknown, (108, "exact"), (109, "exact"), *[unknown] * 3]
    with pytest.raises(Refused, match="does not exist"):
        LiveMappings(_with_topic(copy.pipeline, "nowhere"), copy.source.cluster_id(), copy.target)


def test_an_unreadable_record_is_named_or_passed_over(copied: Callable[..., HandCopy], topic: str) -> None:
    copy = copied()
    copy.mapping(topic, (0, 5), [(0, 100, 5)])
    copy.write(copy.pipeline.offset_mapping.topic, copy.mapping(topic, (5, 6), []).key_bytes(), b"not json")
    copy.mapping(topic, (7, 9), [(7, 107, 2)])
    with pytest.raises(Refused, match=f"mapping record at {copy.pipeline.offset_mapping.topic}-0@.*is not JSON"):
        live(copy).__enter__()
    policy = copy.pipeline.error_handling.model_copy(update={"on_control_message_deserialization_error": "ignore"})
    with live(copy, copy.pipeline.model_copy(update={"error_handling": policy})) as mappings:
        assert of(mappings, topic).covered == (Covered(0, 6), Covered(7, 9))


@pytest.mark.parametrize("what", ["mapping", "commit"])
def test_an_unreadable_record_is_not_passed_over_by_trying_again(
    copied: Callable[..., HandCopy], topic: str, what: str
) -> None:
    """What is behind it may cancel what was read before."""
    copy = copied()
    key = copy.mapping(topic, (0, 9), [(0, 100, 9)]).key_bytes()
    copy.commit(topic, 9)
    with live(copy) as mappings:
        if what == "mapping":
            copy.write(copy.pipeline.offset_mapping.topic, key, b"not json")
        else:
            copy.write(copy.pipeline.coordination.commit.topic, b"not json", b"")
        copy.mapping(topic, (5, 9), [(5, 200, 4)], generation=2)
        for _ in range(3):
            with pytest.raises(Refused, match="is not JSON"):
                mappings.catch_up([])


@pytest.mark.parametrize("error", [ClusterUnreachable("in the middle"), Deleted("in the middle")])
def test_a_reading_from_the_start_that_fails_begins_anew(
    copied: Callable[..., HandCopy], topic: str, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """A broker that is starting may say for a moment that there is no such topic."""
    copy = copied()
    copy.mapping(topic, (0, 5), [(0, 100, 5)], sequence=2)
    copy.mapping(topic, (5, 9), [(5, 105, 4)], sequence=3)
    with live(copy) as mappings:
        copy.mapping(topic, (0, 0), [], sequence=1)  # late: all records must be folded again
        real = TopicFollower.read_until
        failing = [True, True]  # where it is noticed that they must be, and when that is tried again

        def cut_off(self: TopicFollower, ends: Any, patience: float) -> Iterator[Any]:
            for batch in real(self, ends, patience):
                yield batch
                if failing and batch[0].topic() == copy.pipeline.offset_mapping.topic and batch[0].offset() == 0:
                    failing.pop()
                    raise error

        monkeypatch.setattr(TopicFollower, "read_until", cut_off)
        for _ in range(2):
            with pytest.raises(type(error), match="in the middle"):
                mappings.catch_up([])
        mappings.catch_up([])
        assert of(mappings, topic).covered == (Covered(0, 9),)


def test_another_topic_of_the_name_is_refused(copied: Callable[..., HandCopy], topic: str) -> None:
    copy = copied()
    copy.mapping(topic, (0, 5), [(0, 100, 5)])
    with live(copy) as mappings:
        delete_topic(copy.target.servers, copy.pipeline.offset_mapping.topic)
        with pytest.raises(Refused, match="does not exist"):
            mappings.catch_up([])
        create_topic(copy.target.servers, copy.pipeline.offset_mapping.topic, 6)
        with pytest.raises(Replaced, match=r"deleted and created anew while it was followed \(topic id "):
            mappings.catch_up([])


def test_others_that_map_the_same_partition_are_seen(copied: Callable[..., HandCopy], topic: str) -> None:
    copy = copied()
    copy.mapping(topic, (0, 5), [(0, 100, 5)])
    copy.mapping(topic, (0, 3), [(0, 0, 3)], group="another")
    with live(copy, others=True) as mappings:
        [source] = mappings.sources()
        assert {group: runs(found) for group, found in mappings.others_of(source).items()} == {"another": [(0, 0, 3)]}
        assert runs(mappings.map_of(source)) == [(0, 100, 5)]


@pytest.mark.spark
def test_what_is_let_go_of_is_answered_from_the_index(
    spark: SparkSession, copied: Callable[..., HandCopy], topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    copy = copied(count=2)
    for n in range(6):
        copy.mapping(topic, (10 * n, 10 * n + 10), [(10 * n, 100 * n, 5)])
    copy.commit(topic, 60)
    with live(copy) as alone, caplog.at_level(logging.WARNING, "k2k.mapping"):
        asked = (0, 39, 40, 47, 60)
        expected = [(-1, "unknown"), (-1, "unknown"), (400, "exact"), (500, "exact"), (505, "exact")]
        for _ in range(2):
            assert answers(of(alone, topic, lowest=0), *asked) == expected
        assert caplog.text.count("no index has the rest") == 1
        assert runs(of(alone, topic)) == [(40, 305, 0), (40, 400, 5), (50, 500, 5)], "where the rest ended is kept"

        update_index(spark, copy.pipeline, copy.source, copy.target)
        whole = [(0, "exact"), (400, "exact"), (400, "exact"), (500, "exact"), (505, "exact")]
        alone._index._next_look = 0.0
        assert answers(of(alone, topic, lowest=0), *asked) == whole, "an index that came later is used too"

    mapping_topic = copy.pipeline.offset_mapping.topic
    for p, end in end_offsets(copy.target.servers, mapping_topic).items():
        delete_records(copy.target.servers, mapping_topic, p, end)
    copy.mapping(topic, (60, 70), [(60, 600, 5)])
    with live(copy) as mappings:
        assert runs(of(mappings, topic)) == [(60, 505, 0), (60, 600, 5)], "the index stays on disk"
        found = of(mappings, topic, lowest=3)
        assert answers(found, 3, 39, 60, 66, 71) == [
            (3, "exact"), (400, "exact"), (600, "exact"), (605, "exact"), (605, "ahead"),
        ]  # fmt: skip
        assert found.covered == (Covered(0, 70),)


@pytest.mark.spark
def test_what_an_index_that_was_built_anew_has_lost_is_unknown(
    spark: SparkSession, copied: Callable[..., HandCopy], topic: str
) -> None:
    """A mapper runs meanwhile, and has held what the index lost. It must not take what comes next for the answer."""
    copy = copied(count=2)
    for n in range(6):
        copy.mapping(topic, (10 * n, 10 * n + 10), [(10 * n, 100 * n, 5)])
    copy.commit(topic, 60)
    asked = (3, 25, 33, 47, 60)
    with live(copy) as mappings:
        update_index(spark, copy.pipeline, copy.source, copy.target)
        mappings._index._next_look = 0.0
        whole = [(3, "exact"), (300, "exact"), (303, "exact"), (500, "exact"), (505, "exact")]
        assert answers(of(mappings, topic, lowest=0), *asked) == whole

        shutil.rmtree(str(index_directory(copy.pipeline.name, copy.pipeline.index.path)))
        delete_records(copy.target.servers, copy.pipeline.offset_mapping.topic, 0, _offset_of(copy, topic, 30))
        update_index(spark, copy.pipeline, copy.source, copy.target)
        mappings._index.refresh()
        found = of(mappings, topic, lowest=0)
        assert answers(found, *asked) == [(-1, "unknown"), (-1, "unknown"), *whole[2:]]
        assert found.covered == (Covered(30, 60),)


def _offset_of(copy: HandCopy, topic: str, covered_from: int) -> int:
    """Where the mapping record of a range lies."""
    records = read_all(copy.target.servers, copy.pipeline.offset_mapping.topic)
    return next(r.offset for r in records if json.loads(r.value or b"")["from"] == covered_from)


@pytest.mark.parametrize("how", ["a duration", "topic"])
def test_what_is_too_old_is_let_go_of(copied: Callable[..., HandCopy], topic: str, how: str) -> None:
    copy = copied(time="1 hour" if how == "a duration" else "topic")
    mapping_topic = copy.pipeline.offset_mapping.topic
    copy.mapping(topic, (0, 10), [(0, 0, 5)])
    with live(copy) as mappings:
        copy.mapping(topic, (10, 20), [(10, 100, 5)], time=int(time.time() * 1000))
        copy.commit(topic, 20)
        if how == "topic":
            mappings.catch_up([])
            assert answers(of(mappings, topic, lowest=0), 0, 9) == [(0, "exact"), (100, "exact")]
            delete_records(copy.target.servers, mapping_topic, 0, 1)
        mappings.catch_up([])
        unknown = (-1, "unknown")
        assert answers(of(mappings, topic, lowest=0), 0, 9, 10, 17) == [
            unknown,
            unknown,
            (100, "exact"),
            (105, "exact"),
        ]


@pytest.mark.spark
def test_an_index_and_the_tail_after_it_are_one(
    spark: SparkSession, copied: Callable[..., HandCopy], topic: str
) -> None:
    copy = copied()
    copy.mapping(topic, (0, 10), [(0, 0, 5), (7, 6, 2)])
    copy.mapping(topic, (0, 4), [], partition=1)
    index = update_index(spark, copy.pipeline, copy.source, copy.target)
    copy.mapping(topic, (10, 20), [(10, 10, 10)])
    with live(copy) as mappings:
        assert index.manifest.records_read == 2
        assert runs(of(mappings, topic, lowest=0)) == [(0, 0, 5), (7, 6, 2), (10, 10, 10)]
        assert of(mappings, topic, 1).covered == (Covered(0, 4),)
        # A copy that starts again below the end of the index: the mapper reads the rest from the topic.
        copy.mapping(topic, (8, 9), [(8, 30, 1)], generation=5)
        mappings.catch_up([])
        assert runs(of(mappings, topic, lowest=0)) == [(0, 0, 5), (7, 6, 1), (8, 30, 1)]


@pytest.mark.spark
def test_after_a_reading_from_the_start_the_index_is_gone_on_from_as_soon_as_it_has_read_as_far(
    spark: SparkSession, copied: Callable[..., HandCopy], topic: str
) -> None:
    """The topic has deleted records since, of all partitions: what they mapped is in the index alone."""
    copy = copied()
    for partition in range(2):
        copy.mapping(topic, (0, 10), [(0, 0, 10)], partition=partition)
    update_index(spark, copy.pipeline, copy.source, copy.target)
    mapping_topic = copy.pipeline.offset_mapping.topic
    for p, end in end_offsets(copy.target.servers, mapping_topic).items():
        delete_records(copy.target.servers, mapping_topic, p, end)
    copy.mapping(topic, (10, 20), [(10, 10, 10)])
    unknown = (-1, "unknown")
    with live(copy) as mappings:
        copy.mapping(topic, (8, 9), [(8, 30, 1)], generation=5)  # a position was set
        mappings.catch_up([])
        assert answers(of(mappings, topic, lowest=0), 3, 8) == [unknown, (30, "exact")], "from the topic alone"
        update_index(spark, copy.pipeline, copy.source, copy.target)
        copy.mapping(topic, (9, 12), [(9, 31, 3)], generation=5)
        mappings._index._next_look = 0.0
        mappings.catch_up([])
        assert answers(of(mappings, topic, lowest=0), 3, 8, 11) == [(3, "exact"), (30, "exact"), (33, "exact")]
        assert answers(of(mappings, topic, 1, lowest=0), 3) == [(3, "exact")], "of which no record came since"


@pytest.mark.spark
def test_what_an_index_whose_files_are_gone_had_is_read_from_the_topic(
    spark: SparkSession, copied: Callable[..., HandCopy], topic: str
) -> None:
    copy = copied()
    copy.mapping(topic, (0, 10), [(0, 0, 5), (7, 6, 2)])
    index = update_index(spark, copy.pipeline, copy.source, copy.target)
    copy.mapping(topic, (10, 20), [(10, 10, 10)])
    with live(copy) as mappings:
        shutil.rmtree(local(index.root) / "segments")
        assert of(mappings, topic, lowest=0).covered == (Covered(10, 20),)
        mappings.catch_up([])
        assert runs(of(mappings, topic, lowest=0)) == [(0, 0, 5), (7, 6, 2), (10, 10, 10)]


def test_a_mapping_topic_that_gets_more_partitions_is_followed_there_too(
    copied: Callable[..., HandCopy], topic: str
) -> None:
    copy = copied()
    copy.mapping(topic, (0, 5), [(0, 100, 5)])
    with live(copy) as mappings:
        add_partitions(copy.target.servers, copy.pipeline.offset_mapping.topic, 8)
        record = copy.mapping(topic, (5, 9), [(5, 105, 4)])
        again = Record(record.key_bytes(), record.value_bytes(), partition=7)
        produce(copy.target.servers, copy.pipeline.offset_mapping.topic, [again])
        mappings.catch_up([])
        assert runs(of(mappings, topic)) == [(0, 100, 9)]


def test_a_commit_topic_that_comes_later_is_followed_from_then_on(copied: Callable[..., HandCopy], topic: str) -> None:
    copy = copied()
    delete_topic(copy.target.servers, copy.pipeline.coordination.commit.topic)
    with live(copy) as mappings:
        assert mappings.sources() == []
        ensure_control_topics(copy.pipeline, copy.target)
        copy.mapping(topic, (0, 5), [(0, 100, 5)])
        copy.commit(topic, 12)
        mappings.catch_up([])
        assert [record.position for record in mappings.copied().values()] == [12]
        assert of(mappings, topic).covered == (Covered(0, 5), Covered(12, 12)), "copied, and not mapped"


def _with_topic(pipeline: Pipeline, name: str) -> Pipeline:
    return pipeline.model_copy(update={"offset_mapping": pipeline.offset_mapping.model_copy(update={"topic": name})})


@pytest.mark.spark
@pytest.mark.parametrize("how", ["retention", "the topic was created anew"])
def test_behind_an_index_from_which_records_were_lost_nothing_joins_on(
    spark: SparkSession, copied: Callable[..., HandCopy], topic: str, how: str
) -> None:
    """5 to 9 were copied again, of which the record is lost: a reader of these copies must not be sent behind 9."""
    copy = copied()
    mapping_topic = copy.pipeline.offset_mapping.topic
    copy.mapping(topic, (0, 10), [(0, 0, 10)])
    update_index(spark, copy.pipeline, copy.source, copy.target)
    copy.mapping(topic, (5, 10), [(5, 11, 5)], generation=2)
    if how == "retention":
        for p, end in end_offsets(copy.target.servers, mapping_topic).items():
            delete_records(copy.target.servers, mapping_topic, p, end)
        assert update_index(spark, copy.pipeline, copy.source, copy.target).manifest.doubtful
    else:
        delete_topic(copy.target.servers, mapping_topic)
        ensure_control_topics(copy.pipeline, copy.target)
    copy.mapping(topic, (10, 20), [(10, 17, 10)], generation=2)
    with live(copy) as mappings:
        found = of(mappings, topic, lowest=0)
        [target] = found.runs
        back = translate_back(found, target, np.array([8, 12, 17, 20]))
        states = [TranslationState(state).label for state in back.states.tolist()]
        expected = [(-1, "unknown"), (-1, "unknown"), (10, "exact"), (13, "exact")]
        assert list(zip(back.offsets.tolist(), states, strict=True)) == expected
