"""The columns of the mapping index as Spark sees it."""

from __future__ import annotations

from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType


def _struct(**columns: type) -> StructType:
    return StructType([StructField(name, kind(), False) for name, kind in columns.items()])


# What tells one source partition from all others, also from a topic of the same name that was deleted.
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

# Source ranges that the mapping answers for; generation and sequence are those of the newest record folded in.
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
