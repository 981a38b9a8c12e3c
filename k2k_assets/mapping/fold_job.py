"""The Spark part of folding: mapping records out of Kafka, grouped by source partition, into index rows.

Each function that runs in a task takes and gives Arrow data; the algebra itself is `fold.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from k2k_assets.mapping import schemas
from k2k_assets.mapping.fold import NEVER, Covered, LateRecord, Order, PartitionMapping, Target, fold
from k2k_assets.mapping.offset_ranges import OffsetRange, ranges_frame, ranges_in, read_range
from k2k_assets.mapping.records import MappingRecord
from k2k_assets.mapping.runs import Run

_FOLDED = to_arrow_schema(schemas.FOLDED)
_RECORDS = to_arrow_schema(schemas.RECORDS)


def mapping_records(
    spark: SparkSession,
    properties: Mapping[str, object],
    ranges: Sequence[OffsetRange],
    group: str,
    ignore_unreadable: bool,
) -> DataFrame:
    """The mapping records of a group in offset ranges of the mapping topic, columns `schemas.RECORDS`.

    Args:
        spark: Runs the reading.
        properties: Consumer settings for the target.
        ranges: What to read.
        group: The pipeline's group; records of others are left out.
        ignore_unreadable: Leave out what cannot be parsed (it shows as a hole in the coverage) instead of failing.
    """

    def read(batches: Iterable[Any]) -> Iterator[Any]:
        for wanted in ranges_in(batches):
            for chunk in read_range(properties, wanted):
                rows = [row for m in chunk if (row := _record_row(m, group, ignore_unreadable))]
                yield pa.RecordBatch.from_pylist(rows, schema=_RECORDS)

    return ranges_frame(spark, ranges).mapInArrow(read, schemas.RECORDS)


def fold_frames(runs: DataFrame, coverage: DataFrame, records: DataFrame) -> DataFrame:
    """The index after `records`, columns `schemas.FOLDED`; a `late` row for each partition that cannot be extended.

    Args:
        runs: Of the index before.
        coverage: Of the index before.
        records: What is new.
    """
    before = _as_folded(runs, coverage).groupBy(*schemas.SOURCE_PARTITION)
    new = records.groupBy(*schemas.SOURCE_PARTITION)
    return before.cogroup(new).applyInArrow(_fold_partition, schemas.FOLDED)


def runs_of(folded: DataFrame) -> DataFrame:
    """The run rows, columns `schemas.RUNS`."""
    return folded.where(F.col("kind") == schemas.RUN).select(*schemas.RUNS.names)


def coverage_of(folded: DataFrame) -> DataFrame:
    """The coverage rows, columns `schemas.COVERAGE`."""
    return folded.where(F.col("kind") == schemas.COVERED).select(
        *schemas.SOURCE_PARTITION,
        F.col("source_start").alias("covered_from"),
        (F.col("source_start") + F.col("count")).alias("covered_to"),
        "generation",
        "sequence",
    )


def _as_folded(runs: DataFrame, coverage: DataFrame) -> DataFrame:
    zero = F.lit(0).cast("long")
    as_runs = runs.select(
        F.lit(schemas.RUN).alias("kind"),
        *schemas.RUNS.names,
        zero.alias("generation"),
        zero.alias("sequence"),
    )
    as_coverage = coverage.select(
        F.lit(schemas.COVERED).alias("kind"),
        *schemas.SOURCE_PARTITION,
        F.lit("").alias("target_topic"),
        F.lit("").alias("target_topic_id"),
        F.lit(0).cast("int").alias("target_partition"),
        F.col("covered_from").alias("source_start"),
        zero.alias("target_start"),
        (F.col("covered_to") - F.col("covered_from")).alias("count"),
        "generation",
        "sequence",
    )
    return as_runs.unionByName(as_coverage)


def _record_row(message: Any, group: str, ignore_unreadable: bool) -> dict[str, object] | None:
    where = f"mapping record at {message.topic()}-{message.partition()}@{message.offset()}"
    try:
        record = MappingRecord.parse(message.key(), message.value(), where)
    except ValueError:
        if ignore_unreadable:
            return None
        raise
    if record.group != group:
        return None
    return {
        "cluster": record.cluster,
        "topic": record.topic,
        "source_topic_id": record.source_topic_id,
        "partition": record.partition,
        "key": message.key(),
        "value": message.value(),
    }


def _fold_partition(before: pa.Table, new: pa.Table) -> pa.Table:
    records = [MappingRecord.parse(key, value) for key, value in _columns(new, "key", "value")]
    source = {name: (before if before.num_rows else new).column(name)[0].as_py() for name in schemas.SOURCE_PARTITION}
    try:
        rows = _rows(fold(_mapping(before), records))
    except LateRecord:
        rows = [{"kind": schemas.LATE}]
    return pa.Table.from_pylist([{**_BLANK, **source, **row} for row in rows], schema=_FOLDED)


_BLANK: dict[str, object] = {
    "target_topic": "",
    "target_topic_id": "",
    "target_partition": 0,
    "source_start": 0,
    "target_start": 0,
    "count": 0,
    "generation": 0,
    "sequence": 0,
}


def _mapping(before: pa.Table) -> PartitionMapping:
    mapping = PartitionMapping()
    columns = ("kind", *schemas.RUNS.names[4:], "generation", "sequence")
    for kind, topic, topic_id, partition, start, target_start, count, *order in _columns(before, *columns):
        if kind == schemas.RUN:
            runs = mapping.runs.setdefault(Target(topic, topic_id, partition), [])
            runs.append(Run(start, target_start, count))
        else:
            mapping.covered.append(Covered(start, start + count))
            mapping.newest = max(mapping.newest, Order(*order))
    for runs in mapping.runs.values():
        runs.sort()
    mapping.covered.sort()
    return mapping


def _rows(mapping: PartitionMapping) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = [
        {
            "kind": schemas.RUN,
            "target_topic": target.topic,
            "target_topic_id": target.topic_id,
            "target_partition": target.partition,
            "source_start": run.source_start,
            "target_start": run.target_start,
            "count": run.count,
        }
        for target, runs in mapping.runs.items()
        for run in runs
    ]
    order = mapping.newest if mapping.newest != NEVER else Order(0, 0)
    rows.extend(
        {
            "kind": schemas.COVERED,
            "source_start": covered.start,
            "count": covered.end - covered.start,
            "generation": order.generation,
            "sequence": order.sequence,
        }
        for covered in mapping.covered
    )
    return rows


def _columns(table: pa.Table, *names: str) -> Iterator[tuple[Any, ...]]:
    values: list[Callable[[], list[Any]]] = [table.column(name).to_pylist for name in names]
    return zip(*(read() for read in values), strict=True)
