"""Offset ranges as rows of a DataFrame, which tell Spark tasks what to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from k2k_assets.kafka.offset_ranges import OffsetRange

RANGES = StructType(
    [
        StructField("topic", StringType(), False),
        StructField("partition", IntegerType(), False),
        StructField("start", LongType(), False),
        StructField("end", LongType(), False),
    ]
)


def ranges_frame(spark: SparkSession, ranges: Sequence[OffsetRange], most_tasks: int | None = None) -> DataFrame:
    """The ranges as a DataFrame, spread over tasks.

    Args:
        spark: The session.
        ranges: The ranges.
        most_tasks: Largest number of tasks; None: one task for each range.
    """
    tasks = min(len(ranges), most_tasks or len(ranges))
    return spark.createDataFrame(list(ranges), RANGES).repartition(max(1, tasks))


def ranges_in(batches: Iterable[Any]) -> Iterator[OffsetRange]:
    """Reads the ranges from Arrow batches of `ranges_frame`, in a task."""
    for batch in batches:
        for row in batch.to_pylist():
            yield OffsetRange(row["topic"], row["partition"], row["start"], row["end"])
