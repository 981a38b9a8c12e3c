"""The translated consumer groups as a Spark DataFrame: a row for each position, validated by pandera."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from pyspark.sql import DataFrame, SparkSession

from k2k_assets.core.state_path import StatePath
from k2k_assets.groups.report import PollResult
from k2k_assets.pipeline import Pipeline
from k2k_assets.tables import stored
from k2k_assets.verification.models import GroupPositionsModel

TABLE = "group_positions"


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """A group's position in one source partition, and its translation on the target.

    Attributes:
        group: The consumer group.
        target_topic: The target topic.
        target_partition: The target partition.
        target_offset: Next offset to read there; None if the mappings have no answer.
        left_on_target: Offsets left to read there; None if the position or the end is not known.
        state: The decision: exact, ahead, waiting, unknown, active, ...
        source_topic: The source topic.
        source_partition: The source partition.
        source_offset: Next offset to read there.
        left_on_source: Offsets left to read there; None if the end is not known.
    """

    group: str
    target_topic: str
    target_partition: int
    target_offset: int | None
    left_on_target: int | None
    state: str
    source_topic: str
    source_partition: int
    source_offset: int
    left_on_source: int | None


def group_positions(result: PollResult) -> Iterator[GroupPosition]:
    """The positions of all groups of a poll, in order; one row for each source partition of a target partition."""
    for group in result.groups:
        for line in result.lines(group):
            offset, left = (line.target.offset, line.target.left) if line.target else (None, None)
            for source in line.sources:
                yield GroupPosition(
                    *(group, *line.partition, offset, left, line.decision.value),
                    *(*source.partition, source.offset, source.left),
                )


def group_positions_frame(spark: SparkSession, positions: Iterable[GroupPosition]) -> DataFrame:
    """Makes a DataFrame of rows.

    Raises:
        BrokenTable: A row breaks a rule of `GroupPositionsModel`.
    """
    frame = spark.createDataFrame([asdict(position) for position in positions], GroupPositionsModel.to_structtype())
    refusal = "the groups' positions break the rules of their table, not written"
    return stored.validated(frame, GroupPositionsModel, refusal)


def write_group_positions(spark: SparkSession, pipeline: Pipeline, positions: Iterable[GroupPosition]) -> StatePath:
    """Writes the table, and returns its directory. Raises as `group_positions_frame`."""
    return stored.write(group_positions_frame(spark, positions), pipeline, TABLE)


def read_group_positions_table(spark: SparkSession, pipeline: Pipeline) -> DataFrame:
    """Reads the table that the asset `group_positions` wrote last.

    Raises:
        NoTable: The table was not written yet.
    """
    return stored.read(spark, pipeline, TABLE)
