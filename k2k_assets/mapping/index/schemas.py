"""The columns of the mapping index as Spark sees it."""

from __future__ import annotations

from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType


def _struct(**columns: type) -> StructType:
    return StructType([StructField(name, kind(), False) for name, kind in columns.items()])


# The columns that identify a source partition, also among topics of the same name that were created one after another.
SOURCE_PARTITION = ("cluster", "topic", "source_topic_id", "partition")

RUNS = _struct(
    cluster=StringType,
    topic=StringType,
    source_topic_id=StringType,
    partition=IntegerType,
    target_topic=StringType,
    target_topic_id=StringType,
    target_partition=IntegerType,
    source_start=LongType,
    target_start=LongType,
    count=LongType,
)

# Covered source ranges; generation and sequence are those of the newest record folded in.
COVERAGE = _struct(
    cluster=StringType,
    topic=StringType,
    source_topic_id=StringType,
    partition=IntegerType,
    covered_from=LongType,
    covered_to=LongType,
    generation=LongType,
    sequence=LongType,
)
