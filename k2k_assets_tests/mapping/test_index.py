"""The index against a real mapping topic: what is built at once equals what is built bit by bit."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from k2k_assets.mapping import index as index_module
from k2k_assets.mapping.index import MappingIndex, update_index
from k2k_assets.mapping.manifest import VERSIONS, IndexUnusable, read_manifest
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.hand_copy import HandCopy
from k2k_assets_tests.support.kafka import create_topic, delete_records, end_offsets, unique
from k2k_assets_tests.support.pipelines import write_pipeline

pytestmark = [pytest.mark.integration, pytest.mark.spark]

Runs = list[tuple[str, int, int, int, int]]


@pytest.fixture
def topic(clusters: KafkaSandbox) -> str:
    name = unique("orders")
    for servers in (clusters.source_servers, clusters.target_servers):
        create_topic(servers, name, partitions=2)
    return name


@pytest.fixture
def copy(clusters: KafkaSandbox, topic: str, tmp_path: Path) -> HandCopy:
    path = write_pipeline(
        tmp_path,
        clusters.source_servers,
        clusters.target_servers,
        [topic],
        features={"offsetMapping": "enabled"},
        index={"path": str(tmp_path / "index")},
    )
    return HandCopy(load_pipeline([path]))


def _update(spark: SparkSession, copy: HandCopy) -> MappingIndex:
    return update_index(spark, copy.pipeline, copy.source, copy.target)


def _runs(spark: SparkSession, index: MappingIndex) -> Runs:
    columns = ("topic", "partition", "source_start", "target_start", "count")
    return sorted(tuple(row) for row in index.runs(spark).select(*columns).collect())


def _covered(spark: SparkSession, index: MappingIndex) -> list[tuple[int, int, int]]:
    rows = index.coverage(spark).select("partition", "covered_from", "covered_to").collect()
    return sorted(tuple(row) for row in rows)


def test_reads_what_is_new_and_extends_the_last_run(spark: SparkSession, copy: HandCopy, topic: str) -> None:
    copy.mapping(topic, (0, 5), [(0, 100, 5)])
    copy.mapping(topic, (0, 3), [(1, 7, 2)], partition=1)
    first = _update(spark, copy)
    assert _runs(spark, first) == [(topic, 0, 0, 100, 5), (topic, 1, 1, 7, 2)]

    copy.mapping(topic, (5, 9), [(5, 105, 3)])
    copy.mapping(topic, (0, 9), [(0, 0, 9)], group="another-group")
    second = _update(spark, copy)
    assert _runs(spark, second) == [(topic, 0, 0, 100, 8), (topic, 1, 1, 7, 2)]
    assert _covered(spark, second) == [(0, 0, 9), (1, 0, 3)]
    assert (second.manifest.runs, second.manifest.mapped, second.manifest.records_read) == (2, 10, 3)
    # Who opened the first version can still read it.
    assert _runs(spark, first) == [(topic, 0, 0, 100, 5), (topic, 1, 1, 7, 2)]

    assert _update(spark, copy).manifest.directory == second.manifest.directory, "nothing new, so nothing is written"
    copy.mapping(topic, (9, 10), [])
    third = _update(spark, copy)
    kept = {path.name for path in (third.root / VERSIONS).iterdir()}
    assert kept == {second.manifest.directory, third.manifest.directory}


def test_a_recopy_cancels_also_across_builds(spark: SparkSession, copy: HandCopy, topic: str) -> None:
    copy.mapping(topic, (0, 10), [(0, 0, 10)])
    _update(spark, copy)
    copy.mapping(topic, (6, 8), [(6, 50, 2)], generation=2)
    index = _update(spark, copy)
    assert _runs(spark, index) == [(topic, 0, 0, 0, 6), (topic, 0, 6, 50, 2)]
    assert _covered(spark, index) == [(0, 0, 8)]


def test_a_late_record_makes_it_start_over(spark: SparkSession, copy: HandCopy, topic: str) -> None:
    copy.mapping(topic, (4, 6), [(4, 50, 2)], generation=2)
    _update(spark, copy)
    copy.mapping(topic, (0, 10), [(0, 0, 10)], generation=1)
    index = _update(spark, copy)
    assert _runs(spark, index) == [(topic, 0, 0, 0, 4), (topic, 0, 4, 50, 2)]
    assert index.manifest.records_read == 2


def test_a_crash_before_the_switch_leaves_the_old_version(
    spark: SparkSession, copy: HandCopy, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy.mapping(topic, (0, 5), [(0, 100, 5)])
    before = _update(spark, copy)
    copy.mapping(topic, (5, 6), [(5, 105, 1)])

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(index_module, "switch", crash)
        with pytest.raises(KeyboardInterrupt):
            _update(spark, copy)
    after = MappingIndex.open(copy.pipeline)
    assert after.manifest == before.manifest
    assert _runs(spark, after) == [(topic, 0, 0, 100, 5)]
    again = _update(spark, copy)
    assert _runs(spark, again) == [(topic, 0, 0, 100, 6)]
    left = {path.name for path in (again.root / VERSIONS).iterdir()}
    assert left == {before.manifest.directory, again.manifest.directory}, "what the crash left is removed"


def test_records_that_retention_took_leave_a_hole(
    spark: SparkSession, copy: HandCopy, topic: str, clusters: KafkaSandbox
) -> None:
    copy.mapping(topic, (0, 5), [(0, 100, 5)])
    _update(spark, copy)
    copy.mapping(topic, (5, 6), [(5, 105, 1)])
    mappings = copy.pipeline.offset_mapping.topic
    end = end_offsets(clusters.target_servers, mappings)[0]
    delete_records(clusters.target_servers, mappings, 0, end)
    copy.mapping(topic, (6, 9), [(6, 106, 3)])
    index = _update(spark, copy)
    assert _covered(spark, index) == [(0, 0, 5), (0, 6, 9)]
    lost = index.manifest.lost
    assert [(gone.partition, gone.end, gone.before_first_read) for gone in lost] == [(0, end, False)]


def test_it_keeps_the_positions_that_must_be_in_it(spark: SparkSession, copy: HandCopy, topic: str) -> None:
    copy.mapping(topic, (0, 5), [(0, 100, 5)])
    copy.commit(topic, 5, records=5)
    index = _update(spark, copy)
    assert [(p.topic, p.partition, p.position, p.records) for p in index.manifest.positions] == [(topic, 0, 5, 5)]


def test_an_unreadable_record_fails_the_build_with_its_place(spark: SparkSession, copy: HandCopy, topic: str) -> None:
    copy.write(copy.pipeline.offset_mapping.topic, b"{}", b"not json")
    with pytest.raises(Exception, match=f"mapping record at {copy.pipeline.offset_mapping.topic}-0@0"):
        _update(spark, copy)
    assert read_manifest(Path(copy.pipeline.index.path or "")) is None


def test_no_index_and_anothers_index_are_named(spark: SparkSession, copy: HandCopy, topic: str) -> None:
    with pytest.raises(IndexUnusable, match="materialize offset_mappings first"):
        MappingIndex.open(copy.pipeline)
    _update(spark, copy)
    coordination = copy.pipeline.offset_mapping.model_copy(update={"topic": copy.pipeline.coordination.commit.topic})
    other = copy.pipeline.model_copy(update={"offset_mapping": coordination})
    with pytest.raises(IndexUnusable, match="index was built for"):
        update_index(spark, other, copy.source, copy.target)
