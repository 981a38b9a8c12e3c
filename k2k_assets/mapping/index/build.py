"""The mapping index for Spark: an update by PySpark jobs, and its runs and coverage as DataFrames.

Translation is in `k2k_assets.translation`, the checks of an index in `k2k_assets.verification`.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.home import index_directory
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.mapping.algebra.fold import nowhere
from k2k_assets.mapping.index import schemas
from k2k_assets.mapping.index.jobs import SparkJobs
from k2k_assets.mapping.index.manifest import (
    SEGMENTS,
    IndexIdentity,
    IndexOutdated,
    IndexUnusable,
    Manifest,
    read_manifest,
)
from k2k_assets.mapping.index.portion_columns import by_segment, coverage, files_of, mapped_of, of_segments
from k2k_assets.mapping.index.portion_table import SOURCE, read_portions
from k2k_assets.mapping.index.storage import storage_errors_as_messages
from k2k_assets.mapping.index.unread import Unread, check_identity, unread
from k2k_assets.mapping.index.update import Update
from k2k_assets.mapping.index.versions import open_version
from k2k_assets.pipeline import Pipeline

LOCK_SECONDS = 120.0
_NOWHERE = nowhere("").topic


@dataclass(frozen=True)
class MappingIndex:
    """One version of an index, open for reading with Spark.

    Attributes:
        root: Directory of the index.
        manifest: The version's manifest.
        portions: Table of portions: columns `portion_table.PORTIONS`, sorted by source partition and order.
    """

    root: Path
    manifest: Manifest
    portions: pa.Table

    @classmethod
    def open(cls, pipeline: Pipeline) -> MappingIndex:
        """Opens the current version of a pipeline's index.

        Raises:
            IndexUnusable: There is no index yet, or it cannot be read.
        """
        return cls(*open_version(pipeline))

    def runs(self, spark: SparkSession) -> DataFrame:
        """The runs, columns `schemas.RUNS`: merged within each segment, but not across segments."""
        return self._rows(spark).where(F.col("target_topic") != _NOWHERE)

    def dropped(self, spark: SparkSession) -> DataFrame | None:
        """The ranges that were left out on purpose, as runs into `fold.nowhere` of a rule; None if there are none."""
        rows = self.portions.filter(pc.greater(pc.list_value_length(self.portions["dropped"]), 0))
        if not len(rows):
            return None
        found = self._valid(spark, self._read(spark, self._files(rows), "_metadata.file_name"), rows)
        return found.where(F.col("target_topic") == _NOWHERE)

    def _rows(self, spark: SparkSession) -> DataFrame:
        cut = self._cut_segments()
        rows = self.portions.filter(pc.not_equal(self.portions["file"], ""))
        is_cut = of_segments(rows, cut)
        frames = [self._read(spark, files) for files in [self._files(rows.filter(pc.invert(is_cut)))] if files]
        rows = rows.filter(is_cut)
        if len(rows):
            frames.append(self._valid(spark, self._read(spark, self._files(rows), "_metadata.file_name"), rows))
        if not frames:
            return spark.createDataFrame([], schemas.RUNS)
        return reduce(lambda one, other: one.unionByName(other), frames)

    def coverage(self, spark: SparkSession) -> DataFrame:
        """The covered source ranges, columns `schemas.COVERAGE`."""
        return spark.createDataFrame(coverage(self.portions), schemas.COVERAGE)

    def _cut_segments(self) -> list[str]:
        """The segments that are only partly valid."""
        mapped = by_segment(self.portions, mapped_of(self.portions))
        return [segment.name for segment in self.manifest.segments if mapped.get(segment.name, 0) != segment.mapped]

    def _files(self, rows: pa.Table) -> list[Path]:
        return [self.root / SEGMENTS / segment / name for segment, name in sorted(files_of(rows))]

    def _read(self, spark: SparkSession, files: list[Path], *more: str) -> DataFrame:
        paths = [file.as_uri() for file in files]
        return spark.read.schema(schemas.RUNS).parquet(*paths).select(*schemas.RUNS.names, *more)

    def _valid(self, spark: SparkSession, runs: DataFrame, rows: pa.Table) -> DataFrame:
        keys = [*schemas.SOURCE_PARTITION, "file_name"]
        columns = "cluster string, topic string, source_topic_id string, partition int, file_name string, end long"
        ends = rows.select([*SOURCE, "file", "end"]).rename_columns([*keys, "end"])
        left = F.col("end") - F.col("source_start")
        return (
            runs.join(F.broadcast(spark.createDataFrame(ends, columns)), keys)
            .where(left > 0)
            .withColumn("count", F.least("count", left))
            .select(*schemas.RUNS.names)
        )


def update_index(spark: SparkSession, pipeline: Pipeline, source: Cluster, target: Cluster) -> MappingIndex:
    """Extends the index by all mapping records that are committed now.

    Args:
        spark: Runs the jobs; driver and executors must share the index's directory.
        pipeline: The pipeline.
        source: The source cluster, which is asked for its id only.
        target: The cluster of the mapping topic and the commit topic.

    Raises:
        IndexUnusable: The index belongs to another pipeline or cluster, must be built anew and cannot, is locked by
            another build that does not end, or its directory cannot be written.
        Refused: The mapping topic does not exist.
        ClusterUnreachable: A cluster does not answer.
    """
    root = index_directory(pipeline.name, pipeline.index.path)

    def look(before: IndexIdentity | None) -> Unread:
        return unread(pipeline, source, target, before)

    update = Update(
        root=root,
        pipeline=pipeline.name,
        group=pipeline.group,
        mapping_topic=pipeline.offset_mapping.topic,
        retention=_milliseconds(pipeline.index.retention),
        jobs=SparkJobs(spark, pipeline),
        look=look,
    )
    with storage_errors_as_messages(root), _locked(root):
        try:
            manifest = update.run(read_manifest(root))
        except IndexOutdated as outdated:
            check_identity(pipeline, outdated.identity, target.cluster_id())
            manifest = update.replace(outdated.identity)
        return MappingIndex(root, manifest, read_portions(root, manifest.directory))


def _milliseconds(duration: timedelta | None) -> int | None:
    return None if duration is None else int(duration.total_seconds() * 1000)


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Locks an index, so that only one build at a time runs on this machine; the lock ends with the process."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / ".lock").open("a") as file:

        def taken() -> bool:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        try:
            wait_until(taken, LOCK_SECONDS, f"the lock of the mapping index {root}", interval=0.2)
        except TimeoutError as error:
            raise IndexUnusable(f"{error}: another process is building this index; wait for it") from None
        yield
