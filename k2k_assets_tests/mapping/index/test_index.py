"""The index with a real mapping topic and Spark; `test_update` covers all cases without them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from k2k_assets.mapping.index import IndexReader, MappingIndex, merging, update, update_index
from k2k_assets.mapping.index.manifest import MANIFEST, SEGMENTS, VERSIONS, IndexUnusable, read_manifest
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import delete_records, end_offsets
from k2k_assets_tests.support.copies.hand_copy import HandCopy, hand_copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline, write_pipeline
from k2k_assets_tests.support.memory.mapping_topic import local
from k2k_assets_tests.support.spark import lost_executor

pytestmark = [pytest.mark.integration, pytest.mark.spark]

Runs = list[tuple[str, int, int, int, int]]


@pytest.fixture
def copy(clusters: KafkaSandbox, topic: str, tmp_path: Path) -> HandCopy:
    return hand_copy(clusters, tmp_path, topic)


def _update(spark: SparkSession, copy: HandCopy) -> MappingIndex:
    return update_index(spark, copy.pipeline, copy.source, copy.target)


def _runs(spark: SparkSession, index: MappingIndex) -> Runs:
    columns = ("topic", "partition", "source_start", "target_start", "count")
    return sorted(tuple(row) for row in index.runs(spark).select(*columns).collect())


def _covered(spark: SparkSession, index: MappingIndex) -> list[tuple[int, int, int]]:
    rows = index.coverage(spark).select("partition", "covered_from", "covered_to").collect()
    return sorted(tuple(row) for row in rows)


@pytest.mark.slow
def test_reads_what_is_new_into_a_segment_of_its_own(spark: SparkSession, copy: HandCopy, topic: str) -> None:
    copy.mapping(topic, (0, 5), [(0, 100, 5)])
    copy.mapping(topic, (0, 3), [(1, 7, 2)], partition=1)
    first = _update(spark, copy)
    assert _runs(spark, first) == [(topic, 0, 0, 100, 5), (topic, 1, 1, 7, 2)]

    copy.mapping(topic, (5, 9), [(5, 105, 3)])
    copy.mapping(topic, (0, 9), [(0, 0, 9)], group="another-group")
    second = _update(spark, copy)
    assert _runs(spark, second) == [(topic, 0, 0, 100, 5), (topic, 0, 5, 105, 3), (topic, 1, 1, 7, 2)]
    assert _covered(spark, second) == [(0, 0, 9), (1, 0, 3)]
    assert (second.manifest.runs, second.manifest.mapped, second.manifest.records_read) == (3, 10, 3)
    reader = IndexReader.open(copy.pipeline)
    looked_up = [list(table) for s in reader.sources() for table in reader.partition_map(s).runs.values()]
    assert looked_up == [[(0, 100, 8)], [(1, 7, 2)]], "what goes on over a border is one run there"
    # A reader that opened the first version can still read it.
    assert _runs(spark, first) == [(topic, 0, 0, 100, 5), (topic, 1, 1, 7, 2)]

    assert _update(spark, copy).manifest.directory == second.manifest.directory, "nothing new, so nothing is written"
    copy.mapping(topic, (9, 10), [])
    third = _update(spark, copy)
    kept = {path.name for path in (local(third.root) / VERSIONS).iterdir()}
    assert kept == {second.manifest.directory, third.manifest.directory}


@pytest.mark.slow
def test_recopies_late_records_and_merged_segments(
    spark: SparkSession, copy: HandCopy, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy.mapping(topic, (0, 10), [(0, 0, 10)])
    _update(spark, copy)
    copy.mapping(topic, (6, 8), [(6, 50, 2)], generation=2)
    index = _update(spark, copy)
    assert _runs(spark, index) == [(topic, 0, 0, 0, 6), (topic, 0, 6, 50, 2)]
    assert _covered(spark, index) == [(0, 0, 8)]

    monkeypatch.setattr(merging, "MOST_OF_A_TIER", 2)
    copy.mapping(topic, (8, 9), [(8, 52, 1)], generation=2)
    copy.mapping(topic, (0, 2), [(0, 0, 2)], partition=1, generation=2)
    index = _update(spark, copy)
    assert len(list((local(index.root) / SEGMENTS).iterdir())) == 3, (
        "two of the version before, and the one that is left"
    )
    assert len(index.manifest.segments) == 1
    assert _runs(spark, index) == [(topic, 0, 0, 0, 6), (topic, 0, 6, 50, 3), (topic, 1, 0, 0, 2)]

    monkeypatch.setattr(update, "MOST_BYTES", 1)
    copy.mapping(topic, (4, 5), [(4, 4, 1)], generation=1)
    index = _update(spark, copy)
    assert _runs(spark, index) == [(topic, 0, 0, 0, 5), (topic, 0, 6, 50, 3), (topic, 1, 0, 0, 2)]
    # What generation 2 has left out may be elsewhere.
    assert _covered(spark, index) == [(0, 6, 9), (1, 0, 2)]
    assert index.manifest.records_read == 5


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


@pytest.mark.slow
def test_an_index_loses_what_is_older_than_the_file_says(
    spark: SparkSession, clusters: KafkaSandbox, topic: str, tmp_path: Path
) -> None:
    copy = HandCopy(
        make_pipeline(
            tmp_path, clusters.source_servers, clusters.target_servers, [topic],
            features={"offsetMapping": "enabled"}, index={"path": str(tmp_path / "index"), "retention": "1 hour"},
        )
    )  # fmt: skip
    now = int(time.time() * 1000)
    for covered, age_hours in (((0, 5), 3.0), ((5, 9), 0.5), ((9, 12), 0.0)):
        first, end = covered
        copy.mapping(topic, covered, [(first, first, end - first)], time=now - int(age_hours * 3_600_000))
        index = _update(spark, copy)
    assert _covered(spark, index) == [(0, 5, 12)]
    assert [(gone.partition, gone.before) for gone in index.manifest.pruned] == [(0, 5)]


def test_it_keeps_the_positions_that_must_be_in_it(spark: SparkSession, copy: HandCopy, topic: str) -> None:
    copy.mapping(topic, (0, 5), [(0, 100, 5)])
    copy.commit(topic, 5, records=5)
    index = _update(spark, copy)
    assert [(p.topic, p.partition, p.position, p.records) for p in index.manifest.positions] == [(topic, 0, 5, 5)]
    assert index.manifest.positions[0].generation >= 0


def test_an_unreadable_record_fails_the_build_with_its_place(spark: SparkSession, copy: HandCopy, topic: str) -> None:
    copy.write(copy.pipeline.offset_mapping.topic, b"{}", b"not json")
    with pytest.raises(Exception, match=f"mapping record at {copy.pipeline.offset_mapping.topic}-0@0"):
        _update(spark, copy)
    assert read_manifest(Path(copy.pipeline.index.path or "")) is None


def test_below_a_record_that_was_passed_over_nothing_is_covered(
    spark: SparkSession, copy: HandCopy, topic: str
) -> None:
    """It may have been a way back; another partition is as it was."""
    policy = copy.pipeline.error_handling.model_copy(update={"on_control_message_deserialization_error": "ignore"})
    pipeline = copy.pipeline.model_copy(update={"error_handling": policy})
    key = copy.mapping(topic, (0, 100), [(0, 100, 100)]).key_bytes()
    copy.mapping(topic, (0, 10), [(0, 0, 10)], partition=1)
    copy.write(copy.pipeline.offset_mapping.topic, key, b"not json")
    copy.mapping(topic, (150, 180), [(150, 300, 30)], generation=9)
    index = update_index(spark, pipeline, copy.source, copy.target)
    assert _covered(spark, index) == [(0, 150, 180), (1, 0, 10)]
    copy.write(copy.pipeline.offset_mapping.topic, b"not json", b"not json")
    index = update_index(spark, pipeline, copy.source, copy.target)
    assert [(name, number) for _, name, _, number in index.manifest.doubtful] == [(topic, 0), (topic, 1)]


def test_no_index_and_anothers_index_are_named(spark: SparkSession, copy: HandCopy, topic: str) -> None:
    with pytest.raises(IndexUnusable, match="materialize offset_mappings first"):
        MappingIndex.open(copy.pipeline)
    _update(spark, copy)
    coordination = copy.pipeline.offset_mapping.model_copy(update={"topic": copy.pipeline.coordination.commit.topic})
    other = copy.pipeline.model_copy(update={"offset_mapping": coordination})
    with pytest.raises(IndexUnusable, match="index was built for"):
        update_index(spark, other, copy.source, copy.target)


def test_an_index_of_an_older_release_is_built_anew_if_the_topic_has_everything(
    spark: SparkSession, copy: HandCopy, topic: str, clusters: KafkaSandbox, caplog: pytest.LogCaptureFixture
) -> None:
    copy.mapping(topic, (0, 5), [(0, 100, 5)])
    root = local(_update(spark, copy).root)
    document = json.loads((root / MANIFEST).read_text())
    older = json.dumps({**document, "version": 1})
    (root / MANIFEST).write_text(older)
    with pytest.raises(IndexUnusable, match="of an older release: materialize offset_mappings"):
        MappingIndex.open(copy.pipeline)
    with caplog.at_level("INFO"):
        assert _runs(spark, _update(spark, copy)) == [(topic, 0, 0, 100, 5)]
    assert "is of an older release: built from the start" in caplog.text

    (root / MANIFEST).write_text(older)
    mappings = copy.pipeline.offset_mapping.topic
    delete_records(clusters.target_servers, mappings, 0, end_offsets(clusters.target_servers, mappings)[0])
    with pytest.raises(IndexUnusable, match="must be built anew, since it is of an older release, but partition 0"):
        _update(spark, copy)
    assert (root / MANIFEST).read_text() == older


_ON_EXECUTORS = """
import sys
from k2k_assets.mapping.index import merging, update_index
from k2k_assets.pipeline import load_pipeline
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.spark.sessions import build_session

merging.MOST_OF_A_TIER = 2
pipeline = load_pipeline([sys.argv[1]])
spark = build_session(pipeline)
assert spark.sparkContext.master.startswith("local-cluster"), spark.sparkContext.master
with both_clusters(pipeline) as (source, target):
    index = update_index(spark, pipeline, source, target)
print(sorted(tuple(row) for row in index.runs(spark).select("partition", "source_start", "count").collect()))
print(sorted(tuple(row) for row in index.coverage(spark).select("partition", "covered_from", "covered_to").collect()))
"""


@pytest.mark.storm
def test_separate_executors_do_the_same(
    clusters: KafkaSandbox, spark: SparkSession, topic: str, tmp_path: Path
) -> None:
    path = write_pipeline(
        tmp_path,
        clusters.source_servers,
        clusters.target_servers,
        [topic],
        features={"offsetMapping": "enabled"},
        index={"path": str(tmp_path / "index")},
        spark={"master": "local-cluster[2,1,1024]"},
    )
    copy = HandCopy(load_pipeline([path]))
    copy.mapping(topic, (0, 10), [(0, 0, 10)])
    _update(spark, copy)
    copy.mapping(topic, (6, 8), [(6, 50, 2)], generation=2)
    copy.mapping(topic, (0, 3), [(0, 7, 3)], partition=1)
    # A process of its own: this one has a session, and there is one in a process.
    done = subprocess.run(
        [sys.executable, "-c", _ON_EXECUTORS, str(path)], capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["[(0, 0, 6), (0, 6, 2), (1, 0, 3)]", "[(0, 0, 8), (1, 0, 3)]"]
    manifest = read_manifest(tmp_path / "index")
    assert manifest
    assert len(manifest.segments) == 1, "the second job ran too"


@pytest.mark.storm
def test_executors_that_are_lost_in_a_fold_leave_no_hole(clusters: KafkaSandbox, topic: str, tmp_path: Path) -> None:
    two_tasks = {"spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.coalescePartitions.enabled": "false"}
    path = write_pipeline(
        tmp_path,
        clusters.source_servers,
        clusters.target_servers,
        [topic],
        features={"offsetMapping": "enabled"},
        index={"path": str(tmp_path / "index")},
        spark={"master": "local-cluster[2,1,1024]", "config": two_tasks},
    )
    copy = HandCopy(load_pipeline([path]))
    assert len(end_offsets(clusters.target_servers, copy.pipeline.offset_mapping.topic)) >= lost_executor.PARTITIONS
    lost_executor.write(copy, 0, lost_executor.RECORDS)
    folder = tmp_path / "loss"
    folder.mkdir()
    command = [sys.executable, "-m", lost_executor.__name__, str(path), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    readings = Counter(file.name.rpartition("-")[0] for file in folder.glob("read-*"))
    assert max(readings.values()) > 1, "some of it was read again"
    updates = [json.loads(line) for line in done.stdout.splitlines()[-2:]]
    for records, told in zip((lost_executor.RECORDS, lost_executor.RECORDS + 1), updates, strict=True):
        length = lost_executor.LENGTH
        assert told["covered"] == [[p, 0, records * length] for p in range(lost_executor.PARTITIONS)]
        assert told["runs"] == [
            [p, n * length, n * (length + 1), length] for p in range(lost_executor.PARTITIONS) for n in range(records)
        ]
