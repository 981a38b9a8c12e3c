"""The Spark jobs of the index: one folds mapping records from Kafka into a new segment, one merges segments.

The tasks read and write Parquet themselves, on a path that driver and executors share, and return a few rows about
their files to the driver. So a task that is tried again only leaves an unused file, and runs cross into the JVM only
once, in packed form, when Spark shuffles the records of a source partition together.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from k2k_assets.control.mapping_records import MappingKey
from k2k_assets.kafka.messages import Message
from k2k_assets.kafka.offset_ranges import OffsetRange, read_range
from k2k_assets.mapping.algebra.fold import NEVER, Beginning
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.index.folding import SORTED_BY, SOURCE
from k2k_assets.mapping.index.jobs import NewSegment
from k2k_assets.mapping.index.portion_columns import rows_of
from k2k_assets.mapping.index.portion_table import PORTIONS, complete, from_table, to_row
from k2k_assets.mapping.index.portions import Portion
from k2k_assets.mapping.index.range_frames import ranges_frame, ranges_in
from k2k_assets.mapping.index.record_rows import ROWS, RecordReader
from k2k_assets.mapping.index.roots import IndexRoot
from k2k_assets.mapping.index.tasks import FoldedPortion, fold_rows, merge_portions
from k2k_assets.pipeline import Pipeline

_ROWS, _PORTIONS = from_arrow_schema(ROWS), from_arrow_schema(PORTIONS)
_FOLDED = from_arrow_schema(PORTIONS.append(pa.field("stretch", pa.int32(), nullable=False)))
_PORTIONS_OF_TASK, _FOLDED_OF_TASK = to_arrow_schema(_PORTIONS), to_arrow_schema(_FOLDED)
_MOST_TASKS = 8
_RUNS_OF_TASK = 1_000_000


class SparkJobs:
    """The jobs on Spark.

    Args:
        spark: The session.
        pipeline: Names the group, and has the settings for the target.
    """

    def __init__(self, spark: SparkSession, pipeline: Pipeline) -> None:
        self._spark = spark
        self._group = pipeline.group
        self._ignore = pipeline.error_handling.on_control_message_deserialization_error == "ignore"
        properties = pipeline.client_properties("target", "consumer")
        self._properties = {**properties, "isolation.level": "read_committed"}

    def fold(self, root: IndexRoot, segment: str, ranges: Sequence[OffsetRange], most: int | None) -> NewSegment:
        """See `Jobs`."""
        records = _records(self._spark, self._properties, ranges, self._group, self._ignore, most)

        def write(batches: Iterable[Any]) -> Iterator[Any]:
            rows = pa.Table.from_batches(batches, schema=ROWS)
            progress = rows.filter(pa.compute.equal(rows["cluster"], _PROGRESS))
            rows = rows.filter(pa.compute.not_equal(rows["cluster"], _PROGRESS))
            found = [*map(_progress_portion, progress.to_pylist()), *fold_rows(root, segment, rows)]
            folded_rows = [{**to_row(portion), "stretch": stretch} for portion, stretch in found]
            yield pa.RecordBatch.from_pylist(folded_rows, schema=_FOLDED_OF_TASK)

        sorted_records = records.repartition(*SOURCE).sortWithinPartitions(*SORTED_BY)
        found = sorted_records.mapInArrow(write, _FOLDED).toArrow()
        is_progress = pa.compute.equal(found["cluster"], _PROGRESS)
        progress = found.filter(is_progress).to_pylist()
        reached = {row["partition"]: row["end"] for row in progress if not row["source_topic_id"]}
        left = [wanted._replace(start=reached[wanted.partition]) for wanted in ranges]
        return NewSegment(
            _by_stretch(found.filter(pa.compute.invert(is_progress))),
            [rest for rest in left if rest.start < rest.end],
            _keys(progress, _PASSED_OVER, self._group)
            | {None for row in progress if row["source_topic_id"] == _ANY_KEY},
            _keys(progress, _READ_BEHIND, self._group),
        )

    def merge(self, root: IndexRoot, segment: str, portions: pa.Table) -> pa.Table:
        """See `Jobs`."""

        def write(batches: Iterable[Any]) -> Iterator[Any]:
            rows = pa.Table.from_batches(batches, schema=_PORTIONS_OF_TASK)
            merged = [to_row(portion) for portion in merge_portions(root, segment, from_table(rows))]
            yield pa.RecordBatch.from_pylist(merged, schema=_PORTIONS_OF_TASK)

        tasks = min(_MOST_TASKS, 1 + int(rows_of(portions).sum()) // _RUNS_OF_TASK)
        frame: DataFrame = self._spark.createDataFrame(portions, _PORTIONS)
        return complete(frame.repartition(tasks, *SOURCE).mapInArrow(write, _PORTIONS).toArrow())


# Stands for the cluster id in the extra rows that tell how far a range of the mapping topic was read.
_PROGRESS = ""
# Stand for the topic id in those that tell what was passed over, a record of a key or of one that cannot be read, and
# of which keys records were read behind one of the latter.
_PASSED_OVER, _ANY_KEY, _READ_BEHIND = "passed over", "any key", "read behind"


def _records(
    spark: SparkSession,
    properties: Mapping[str, object],
    ranges: Sequence[OffsetRange],
    group: str,
    ignore_unreadable: bool,
    most: int | None,
) -> DataFrame:
    def read(batches: Iterable[Any]) -> Iterator[Any]:
        for wanted in ranges_in(batches):
            reader, reached = RecordReader(group, ignore_unreadable, splits=most is not None), wanted.end
            with closing(cast("Generator[list[Message]]", read_range(properties, wanted))) as chunks:
                for chunk, is_full in up_to(chunks, most):
                    yield reader.rows(chunk)
                    if is_full:
                        reached = chunk[-1].offset() + 1
            yield _progress_rows(wanted, reached, reader)

    return ranges_frame(spark, ranges).mapInArrow(read, _ROWS)


def up_to(chunks: Iterable[list[Message]], most: int | None) -> Iterator[tuple[list[Message], bool]]:
    """Yields messages until their values reach a number of bytes.

    The last message depends on the messages alone, never on how they are split into chunks: when an executor is lost,
    Spark may read a range a second time, and joins folds of the first reading with folds of the second one.

    Args:
        chunks: Messages in order.
        most: Number of bytes; None: no limit.

    Yields:
        Messages, and whether they are the last ones because the limit is reached.
    """
    size = 0
    for chunk in chunks:
        for number, message in enumerate(chunk if most is not None else (), start=1):
            size += len(message.value() or b"")
            if most is not None and size >= most:
                yield chunk[:number], True
                return
        yield chunk, False


def _progress_rows(wanted: OffsetRange, reached: int, reader: RecordReader) -> pa.RecordBatch:
    blank: dict[str, object] = {f.name: "" if pa.types.is_string(f.type) else 0 for f in ROWS}
    blank |= {"cluster": _PROGRESS, "override": False, "runs": b""}
    rows = [{**blank, "topic": wanted.topic, "partition": wanted.partition, "offset": reached}]
    if None in reader.passed_over:
        rows.append({**blank, "source_topic_id": _ANY_KEY})
    for kind, keys in ((_PASSED_OVER, reader.passed_over), (_READ_BEHIND, reader.read_behind)):
        rows += [
            {**blank, "source_topic_id": kind, "topic": key.topic, "partition": key.partition} for key in keys if key
        ]
    return pa.RecordBatch.from_pylist(rows, schema=ROWS)


def _progress_portion(row: Mapping[str, Any]) -> FoldedPortion:
    source = SourcePartition(_PROGRESS, row["topic"], row["source_topic_id"], row["partition"])
    return FoldedPortion(Portion(source, "", "", 0, row["offset"], (), NEVER, Beginning(*NEVER, 0), NEVER, 0, 0, 0, ()))


def _keys(progress: Iterable[Mapping[str, Any]], kind: str, group: str) -> frozenset[MappingKey]:
    return frozenset(
        MappingKey(group, row["topic"], row["partition"]) for row in progress if row["source_topic_id"] == kind
    )


def _by_stretch(portions: pa.Table) -> list[pa.Table]:
    numbers = range(1 + (pa.compute.max(portions["stretch"]).as_py() or 0))
    return [complete(portions.filter(pa.compute.equal(portions["stretch"], number))) for number in numbers]
