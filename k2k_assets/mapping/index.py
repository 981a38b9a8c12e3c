"""The mapping index: merged runs and covered ranges as Parquet, extended by a PySpark job.

Each build reads what is new in the mapping topic, folds it into the version before, writes a new version and
switches the manifest. A crash anywhere leaves the old version in place; a reader that has opened a version keeps it,
because the one before the current is not removed. The index holds nothing that a new build from the topic would not.

Not responsible for translation, nor for judging what it holds (`k2k_assets.checks`).
"""

from __future__ import annotations

import fcntl
import logging
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from k2k_assets.deadline import wait_until
from k2k_assets.home import index_directory
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.mapping import fold_job, schemas
from k2k_assets.mapping.manifest import VERSIONS, IndexUnusable, Manifest, read_manifest, switch
from k2k_assets.mapping.unread import Unread, unread
from k2k_assets.pipeline import Pipeline

LOCK_SECONDS = 120.0
# Delta encoding of sorted offsets: a run costs a few bytes instead of thirty.
_PARQUET = {"parquet.writer.version": "PARQUET_2_0", "parquet.enable.dictionary": "false", "compression": "zstd"}

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MappingIndex:
    """One version of an index, open for reading."""

    root: Path
    manifest: Manifest

    @classmethod
    def open(cls, pipeline: Pipeline) -> MappingIndex:
        """The current version of a pipeline's index.

        Raises:
            IndexUnusable: There is none yet, or it cannot be read.
        """
        root = index_directory(pipeline.name, pipeline.index.path)
        manifest = read_manifest(root)
        if manifest is None:
            raise IndexUnusable(f"no mapping index in {root} yet: materialize offset_mappings first")
        return cls(root, manifest)

    def runs(self, spark: SparkSession) -> DataFrame:
        """The merged runs, columns `schemas.RUNS`."""
        return spark.read.schema(schemas.RUNS).parquet(self._table("runs"))

    def coverage(self, spark: SparkSession) -> DataFrame:
        """The covered source ranges, columns `schemas.COVERAGE`."""
        return spark.read.schema(schemas.COVERAGE).parquet(self._table("coverage"))

    def _table(self, name: str) -> str:
        return (self.root / VERSIONS / self.manifest.directory / name).as_uri()


def update_index(spark: SparkSession, pipeline: Pipeline, source: Cluster, target: Cluster) -> MappingIndex:
    """Brings the index up to what is committed now.

    Args:
        spark: Runs the job.
        pipeline: Whose index.
        source: Asked for its id only.
        target: Holds the mapping topic and the commit log.

    Raises:
        IndexUnusable: The index belongs to another pipeline or cluster, or another build does not end.
        Refused: The mapping topic does not exist.
        ClusterUnreachable: A cluster does not answer.
    """
    root = index_directory(pipeline.name, pipeline.index.path)
    with _locked(root):
        before = read_manifest(root)
        new = unread(pipeline, source, target, before)
        if before and not new.ranges:
            seen = {"positions": new.positions, "offsets": new.offsets, "lost": new.lost}
            same = before.model_copy(update={**seen, "mapping_topic_id": new.mapping_topic_id})
            switch(root, same)
            return MappingIndex(root, same)
        manifest = _build(spark, pipeline, root, before, new)
        if manifest is None:
            _log.info("a mapping record is older than what was folded before it: the index is built from the start")
            new = unread(pipeline, source, target, None)
            manifest = _build(spark, pipeline, root, None, new)
        if manifest is None:
            raise IndexUnusable(f"the mapping records of group {pipeline.group!r} have no order")
        switch(root, manifest)
        return MappingIndex(root, manifest)


def _build(
    spark: SparkSession, pipeline: Pipeline, root: Path, before: Manifest | None, new: Unread
) -> Manifest | None:
    """Writes a new version and returns its manifest; None when it must be built from the start."""
    number = before.number + 1 if before else 1
    directory = f"{number:08}-{uuid.uuid4().hex[:8]}"
    ignore = pipeline.error_handling.on_control_message_deserialization_error == "ignore"
    properties = {**pipeline.client_properties("target", "consumer"), "isolation.level": "read_committed"}
    records = fold_job.mapping_records(spark, properties, new.ranges, pipeline.group, ignore).cache()
    folded = fold_job.fold_frames(*_tables(spark, root, before), records).cache()
    try:
        counted = {
            row["kind"]: (row["rows"], row["mapped"] or 0)
            for row in folded.groupBy("kind").agg(F.count("*").alias("rows"), F.sum("count").alias("mapped")).collect()
        }
        if schemas.LATE in counted:
            return None
        path = root / VERSIONS / directory
        _write(fold_job.runs_of(folded), path / "runs", "source_start")
        _write(fold_job.coverage_of(folded), path / "coverage", "covered_from")
        read = records.count()
    finally:
        folded.unpersist()
        records.unpersist()
    runs, mapped = counted.get(schemas.RUN, (0, 0))
    return Manifest(
        pipeline=pipeline.name,
        group=pipeline.group,
        source_cluster=new.source_cluster,
        target_cluster=new.target_cluster,
        mapping_topic=pipeline.offset_mapping.topic,
        mapping_topic_id=new.mapping_topic_id,
        offsets=new.offsets,
        directory=directory,
        previous=before.directory if before else None,
        number=number,
        time=int(time.time() * 1000),
        records_read=(before.records_read if before else 0) + read,
        runs=runs,
        mapped=mapped,
        positions=new.positions,
        lost=new.lost,
    )


def _tables(spark: SparkSession, root: Path, before: Manifest | None) -> tuple[DataFrame, DataFrame]:
    if before is None:
        return spark.createDataFrame([], schemas.RUNS), spark.createDataFrame([], schemas.COVERAGE)
    index = MappingIndex(root, before)
    return index.runs(spark), index.coverage(spark)


def _write(frame: DataFrame, path: Path, offset: str) -> None:
    # The fold has put each source partition into one task already; sorted, its runs lie together and compress well.
    keys = [*schemas.SOURCE_PARTITION, offset]
    frame.sortWithinPartitions(*keys).write.options(**_PARQUET).parquet(path.as_uri())


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """One build of an index at a time on this machine; the lock goes with the process."""
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
