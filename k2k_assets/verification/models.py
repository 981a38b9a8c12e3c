"""The rules of every table that is verified or published, as pandera models: columns, types, nulls, ranges, keys.

`pandera_report.py` validates a frame by a model, and finds the rows that break its rules.
"""

from __future__ import annotations

import pandera.pyspark as pa
from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, TimestampType

from k2k_assets.groups.decide import CommitDecision

_TOPIC = r"^[a-zA-Z0-9._-]{1,249}$"


class RunsModel(pa.DataFrameModel):  # type: ignore[type-arg]  # pandera refuses the argument when it runs
    """The offset ranges of a mapping index: `count` source offsets from `source_start` on were copied to as many target
    offsets from `target_start` on.
    """

    cluster: StringType = pa.Field(nullable=False)
    topic: StringType = pa.Field(nullable=False, str_matches=_TOPIC)
    source_topic_id: StringType = pa.Field(nullable=False)
    partition: IntegerType = pa.Field(nullable=False, ge=0)
    target_topic: StringType = pa.Field(nullable=False, str_matches=_TOPIC)
    target_topic_id: StringType = pa.Field(nullable=False)
    target_partition: IntegerType = pa.Field(nullable=False, ge=0)
    source_start: LongType = pa.Field(nullable=False, ge=0)
    target_start: LongType = pa.Field(nullable=False, ge=0)
    count: LongType = pa.Field(nullable=False, ge=1)

    class Config:
        """Other columns are faults."""

        strict = True


class CoverageModel(pa.DataFrameModel):  # type: ignore[type-arg]
    """The source ranges that a mapping index covers: it has an answer for each offset in them."""

    cluster: StringType = pa.Field(nullable=False)
    topic: StringType = pa.Field(nullable=False, str_matches=_TOPIC)
    source_topic_id: StringType = pa.Field(nullable=False)
    partition: IntegerType = pa.Field(nullable=False, ge=0)
    covered_from: LongType = pa.Field(nullable=False, ge=0)
    covered_to: LongType = pa.Field(nullable=False, ge=0)
    generation: LongType = pa.Field(nullable=False, ge=0)
    sequence: LongType = pa.Field(nullable=False, ge=0)

    class Config:
        """Other columns are faults."""

        strict = True


class CommitLogModel(pa.DataFrameModel):  # type: ignore[type-arg]
    """The commit log; the columns mean what they mean in `status.positions.PositionRow`."""

    topic: StringType = pa.Field(nullable=False, str_matches=_TOPIC)
    partition: IntegerType = pa.Field(nullable=False, ge=0)
    position: LongType = pa.Field(nullable=False, ge=0)
    source_end: LongType = pa.Field(nullable=True, ge=0)
    lag: LongType = pa.Field(nullable=True, ge=0)
    seconds_behind: DoubleType = pa.Field(nullable=True, ge=0)
    target_topic: StringType = pa.Field(nullable=False, str_matches=_TOPIC)
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


class GroupPositionsModel(pa.DataFrameModel):  # type: ignore[type-arg]
    """The translated consumer groups; the columns mean what they mean in `tables.group_positions.GroupPosition`."""

    group: StringType = pa.Field(nullable=False)
    target_topic: StringType = pa.Field(nullable=False, str_matches=_TOPIC)
    target_partition: IntegerType = pa.Field(nullable=False, ge=0)
    target_offset: LongType = pa.Field(nullable=True, ge=0)
    left_on_target: LongType = pa.Field(nullable=True, ge=0)
    state: StringType = pa.Field(nullable=False, isin=[word.value for word in CommitDecision])
    source_topic: StringType = pa.Field(nullable=False, str_matches=_TOPIC)
    source_partition: IntegerType = pa.Field(nullable=False, ge=0)
    source_offset: LongType = pa.Field(nullable=False, ge=0)
    left_on_source: LongType = pa.Field(nullable=True, ge=0)

    class Config:
        """No other column is expected, and a group has one row for a source partition in a target partition."""

        strict = True
        unique = ["group", "target_topic", "target_partition", "source_topic", "source_partition"]
