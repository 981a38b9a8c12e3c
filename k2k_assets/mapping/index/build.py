"""The mapping index for Spark: an update by PySpark jobs, and its runs and coverage as DataFrames.

Translation is in `k2k_assets.translation`, the checks of an index in `k2k_assets.verification`.
"""

from __future__ import annotations

import fcntl
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.object_folder import ObjectFolder
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.mapping.algebra.fold import nowhere
from k2k_assets.mapping.index import schemas
from k2k_assets.mapping.index.manifest import (
    SEGMENTS,
    IndexIdentity,
    IndexOutdated,
    IndexSuperseded,
    IndexUnusable,
    Manifest,
    read_manifest,
)
from k2k_assets.mapping.index.portion_columns import by_segment, coverage, files_of, mapped_of, of_segments
from k2k_assets.mapping.index.portion_table import SOURCE, read_portions
from k2k_assets.mapping.index.roots import IndexRoot, fetched, root_of
from k2k_assets.mapping.index.spark_jobs import SparkJobs
from k2k_assets.mapping.index.storage import storage_errors_as_messages
from k2k_assets.mapping.index.unread import Unread, check_identity, unread
from k2k_assets.mapping.index.update import Update
from k2k_assets.mapping.index.versions import open_version
from k2k_assets.pipeline import Pipeline

LOCK_SECONDS = 120.0
# Each time one of the builds that work at once has made a version.
_ATTEMPTS = 10
_MOST_TASKS = 64
_NOWHERE = nowhere("").topic

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MappingIndex:
    """One version of an index, open for reading with Spark.

    Attributes:
        root: Directory of the index.
        manifest: The version's manifest.
        portions: Table of portions: columns `portion_table.PORTIONS`, sorted by source partition and order.
    """

    root: IndexRoot
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

    def _files(self, rows: pa.Table) -> list[tuple[str, str]]:
        return sorted(files_of(rows))

    def _read(self, spark: SparkSession, files: list[tuple[str, str]], *more: str) -> DataFrame:
        if isinstance(self.root, ObjectFolder):
            return stored_runs(spark, self.root, files).select(*schemas.RUNS.names, *(m.split(".")[-1] for m in more))
        paths = [(self.root / SEGMENTS / segment / name).as_uri() for segment, name in files]
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
        spark: Runs the jobs; driver and executors must share the index's directory, or reach the object store.
        pipeline: The pipeline.
        source: The source cluster, which is asked for its id only.
        target: The cluster of the mapping topic and the commit topic.

    Raises:
        IndexUnusable: The index belongs to another pipeline or cluster, must be built anew and cannot, is locked by
            another build that does not end, or its directory cannot be written.
        Refused: The mapping topic does not exist, or the object store does not know conditional writes.
        ClusterUnreachable: A cluster does not answer.
    """
    root = root_of(pipeline)

    def find_unread(before: IndexIdentity | None) -> Unread:
        return unread(pipeline, source, target, before)

    update = Update(
        root=root,
        pipeline=pipeline.name,
        group=pipeline.group,
        mapping_topic=pipeline.offset_mapping.topic,
        retention=_milliseconds(pipeline.index.retention),
        jobs=SparkJobs(spark, pipeline),
        find_unread=find_unread,
    )
    with storage_errors_as_messages(root):
        if isinstance(root, ObjectFolder):
            manifest = updated_beside_others(update, root)
        else:
            with _locked(root):
                manifest = _updated(update, pipeline, target)
        return MappingIndex(root, manifest, read_portions(root, manifest.directory))


def _updated(update: Update, pipeline: Pipeline, target: Cluster) -> Manifest:
    try:
        return update.run(read_manifest(update.root))
    except IndexOutdated as outdated:
        check_identity(pipeline, outdated.identity, target.cluster_id())
        return update.replace(outdated.identity)


def updated_beside_others(update: Update, root: ObjectFolder) -> Manifest:
    """Updates an index in an object store, where nothing keeps other builds away: who is slower begins again.

    Raises:
        IndexUnusable: As `update_index`.
    """
    for _ in range(_ATTEMPTS):
        before = read_manifest(root)
        try:
            return update.run(before)
        except IndexSuperseded as reason:
            _log.info("%s: begun again from there", reason)
        except (FileNotFoundError, PySparkException):
            # Two builds further the files of the version from which this one began are gone.
            if before == read_manifest(root):
                raise
            _log.info("other processes have updated the index in %s: begun again from there", root)
    raise IndexUnusable(f"the index in {root} is updated by other processes all the time; wait for them")


def _milliseconds(duration: timedelta | None) -> int | None:
    return None if duration is None else int(duration.total_seconds() * 1000)


def stored_runs(spark: SparkSession, root: ObjectFolder, files: list[tuple[str, str]]) -> DataFrame:
    """The runs in files of segments in an object store, which the tasks fetch; Spark needs no client of it.

    Args:
        spark: The session.
        root: Directory of the index.
        files: Segment and name of each file.

    Returns:
        Columns `schemas.RUNS`, and `file_name`.
    """

    def read(batches: Iterable[Any]) -> Iterator[Any]:
        for segment, name in (pair.values() for batch in batches for pair in batch.to_pylist()):
            with pq.ParquetFile(fetched(root, SEGMENTS, segment, name)) as file:
                for batch in file.iter_batches(columns=schemas.RUNS.names):
                    columns = [batch.column(field.name).cast(field.type) for field in of_runs]
                    named = pa.repeat(pa.scalar(name), len(batch))
                    yield pa.RecordBatch.from_arrays([*columns, named], schema=result)

    of_runs = list(to_arrow_schema(schemas.RUNS))
    result = pa.schema([*of_runs, pa.field("file_name", pa.string(), nullable=False)])
    frame = spark.createDataFrame(files, "segment string, name string")
    return frame.repartition(max(1, min(len(files), _MOST_TASKS))).mapInArrow(read, from_arrow_schema(result))


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
