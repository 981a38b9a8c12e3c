"""The commit log as a Spark DataFrame: a row for each source partition, validated by pandera."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pandera.pyspark as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from k2k_assets.pipeline import Pipeline
from k2k_assets.status.positions import PositionRow
from k2k_assets.tables import stored

TABLE = "commit_log"


class CommitLogModel(pa.DataFrameModel):  # type: ignore[type-arg]  # pandera refuses the argument when it runs
    """The columns; their meaning is that of `status.positions.PositionRow`."""

    topic: StringType = pa.Field(nullable=False, str_matches=r"^[a-zA-Z0-9._-]{1,249}$")
    partition: IntegerType = pa.Field(nullable=False, ge=0)
    position: LongType = pa.Field(nullable=False, ge=0)
    source_end: LongType = pa.Field(nullable=True, ge=0)
    lag: LongType = pa.Field(nullable=True, ge=0)
    seconds_behind: DoubleType = pa.Field(nullable=True, ge=0)
    target_topic: StringType = pa.Field(nullable=False, str_matches=r"^[a-zA-Z0-9._-]{1,249}$")
    target_end: LongType = pa.Field(nullable=True, ge=0)
    kind: StringType = pa.Field(nullable=False, isin=["start", "commit", "release", "override"])
    committed: TimestampType = pa.Field(nullable=False)
    owner: StringType = pa.Field(nullable=False)
    stop_code: StringType = pa.Field(nullable=False)
    stop_reason: StringType = pa.Field(nullable=False)

    class Config:
        """No other column is expected, and a partition has one row."""

        strict = True
        unique = ["topic", "partition"]


_SCHEMA = StructType(
    [
        StructField("topic", StringType(), False),
        StructField("partition", IntegerType(), False),
        StructField("position", LongType(), False),
        StructField("source_end", LongType()),
        StructField("lag", LongType()),
        StructField("seconds_behind", DoubleType()),
        StructField("target_topic", StringType(), False),
        StructField("target_end", LongType()),
        StructField("kind", StringType(), False),
        StructField("committed", TimestampType(), False),
        StructField("owner", StringType(), False),
        StructField("stop_code", StringType(), False),
        StructField("stop_reason", StringType(), False),
    ]
)


def commit_log_frame(spark: SparkSession, positions: Iterable[PositionRow]) -> DataFrame:
    """Makes a DataFrame of rows.

    Raises:
        BrokenTable: A row breaks a rule of `CommitLogModel`.
    """
    rows = [
        {**asdict(position), "committed": datetime.fromtimestamp(position.committed / 1000, UTC)}
        for position in positions
    ]
    refusal = "the commit log breaks the rules of its table, and is not written"
    return stored.validated(spark.createDataFrame(rows, _SCHEMA), CommitLogModel, refusal)


def write_commit_log(spark: SparkSession, pipeline: Pipeline, positions: Iterable[PositionRow]) -> Path:
    """Writes the table, and returns its directory. Raises as `commit_log_frame`."""
    return stored.write(commit_log_frame(spark, positions), pipeline, TABLE)


def read_commit_log_table(spark: SparkSession, pipeline: Pipeline) -> DataFrame:
    """Reads the table that the asset `commit_log` wrote last.

    Raises:
        NoTable: The table was not written yet.
    """
    return stored.read(spark, pipeline, TABLE)
