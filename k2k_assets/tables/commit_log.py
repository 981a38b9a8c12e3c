"""The commit log as a Spark DataFrame: a row for each source partition, validated by pandera."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession

from k2k_assets.core.state_path import StatePath
from k2k_assets.pipeline import Pipeline
from k2k_assets.status.positions import PositionRow
from k2k_assets.tables import stored
from k2k_assets.verification.models import CommitLogModel

TABLE = "commit_log"


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
    return stored.validated(spark.createDataFrame(rows, CommitLogModel.to_structtype()), CommitLogModel, refusal)


def write_commit_log(spark: SparkSession, pipeline: Pipeline, positions: Iterable[PositionRow]) -> StatePath:
    """Writes the table, and returns its directory. Raises as `commit_log_frame`."""
    return stored.write(commit_log_frame(spark, positions), pipeline, TABLE)


def read_commit_log_table(spark: SparkSession, pipeline: Pipeline) -> DataFrame:
    """Reads the table that the asset `commit_log` wrote last.

    Raises:
        NoTable: The table was not written yet.
    """
    return stored.read(spark, pipeline, TABLE)
