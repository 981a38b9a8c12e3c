"""Faults of the index's disk: full, read-only, or another file in its place. A message says so; the index stays."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.mapping.index import IndexReader, IndexUnusable, MappingIndex, update_index
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import Record, create_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.mapping_topic import local

pytestmark = [pytest.mark.integration, pytest.mark.spark]


@contextmanager
def no_file_grows() -> Iterator[None]:
    """Every write to a file of this process fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def updated(spark: SparkSession, pipeline: Pipeline) -> MappingIndex:
    with both_clusters(pipeline) as clusters:
        return update_index(spark, pipeline, *clusters)


def test_a_full_disk_and_a_place_that_cannot_be_written(
    clusters: KafkaSandbox, tmp_path: Path, spark: SparkSession
) -> None:
    topic = create_topic(clusters.source_servers, unique("disk"))
    root = tmp_path / "index"
    pipeline = make_pipeline(
        tmp_path,
        clusters.source_servers,
        clusters.target_servers,
        [topic],
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
        index={"path": str(root)},
    )
    produce(clusters.source_servers, topic, [b"a"] * 5)
    copy(pipeline)
    before = updated(spark, pipeline)
    assert before.manifest.mapped == 5
    produce(clusters.source_servers, topic, [b"b"] * 5)
    copy(pipeline)

    with no_file_grows(), pytest.raises(IndexUnusable, match=rf"{root}.* cannot be written: File too large.*free"):
        updated(spark, pipeline)
    assert MappingIndex.open(pipeline).manifest == before.manifest
    # In the tasks too: the segments lie under something that is no directory.
    segments = local(before.root) / "segments"
    segments.rename(local(before.root) / "aside")
    segments.write_bytes(b"")
    with pytest.raises(IndexUnusable, match=r"cannot be written: Not a directory"):
        updated(spark, pipeline)
    segments.unlink()
    (local(before.root) / "aside").rename(segments)

    assert updated(spark, pipeline).manifest.mapped == 10

    in_the_way = tmp_path / "file"
    in_the_way.write_bytes(b"")
    elsewhere = pipeline.model_copy(update={"index": pipeline.index.model_copy(update={"path": str(in_the_way)})})
    with pytest.raises(IndexUnusable, match=rf"{in_the_way}.* cannot be written"):
        updated(spark, elsewhere)


def mapped_runs(pipeline: Pipeline) -> list[list[tuple[int, int, int]]]:
    """The runs of each target partition, as whoever looks something up gets them."""
    reader = IndexReader.open(pipeline)
    return [list(table) for source in reader.sources() for table in reader.partition_map(source).runs.values()]


@pytest.mark.storm
def test_what_a_second_copy_cancels_counts_until_the_disk_takes_the_new_one(
    clusters: KafkaSandbox, tmp_path: Path, spark: SparkSession
) -> None:
    """At least once, with a position that cannot be read: all is copied again, the mappings are cancelled."""
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("again"))
    pipeline = make_pipeline(
        tmp_path,
        source,
        target,
        [topic],
        features={"exactlyOnce": "disabled", "offsetMapping": "enabled"},
        errorHandling={"onControlMessageDeserializationError": "ignore"},
        index={"path": str(tmp_path / "index")},
    )
    produce(source, topic, [b"a"] * 5)
    copy(pipeline)
    before = updated(spark, pipeline)
    assert mapped_runs(pipeline) == [[(0, 0, 5)]]
    commits = pipeline.coordination.commit.topic
    newest = read_all(target, commits)[-1]
    produce(target, commits, [Record(newest.key, b"{garbage", partition=newest.partition)])
    produce(source, topic, [b"b"] * 5)
    copy(pipeline)
    assert len(read_all(target, topic)) == 15

    with no_file_grows(), pytest.raises(IndexUnusable, match="cannot be written: File too large"):
        updated(spark, pipeline)
    assert MappingIndex.open(pipeline).manifest == before.manifest
    assert mapped_runs(pipeline) == [[(0, 0, 5)]]

    assert updated(spark, pipeline).manifest.mapped == 10
    assert mapped_runs(pipeline) == [[(0, 5, 10)]]
