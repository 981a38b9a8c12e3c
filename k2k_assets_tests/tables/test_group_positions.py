"""The translated consumer groups as a DataFrame: from a poll, its rules, and in a notebook."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from k2k_assets.control.group_versions import Version
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.decide import CommitDecision, GroupDecision, Row
from k2k_assets.groups.report import PollResult
from k2k_assets.kafka.groups import CommittedOffset, Ends
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.tables.group_positions import (
    GroupPosition,
    group_positions,
    group_positions_frame,
    read_group_positions_table,
    write_group_positions,
)
from k2k_assets.tables.stored import BrokenTable, NoTable
from k2k_assets_tests.support.copies.pipelines import write_pipeline

ONE, OTHER, ALL = TopicPartition("a", 0), TopicPartition("b", 1), TopicPartition("copy", 0)
_POSITION = GroupPosition("readers", "copy", 0, 7, 3, "exact", "a", 0, 5, 2)


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    monkeypatch.setenv("K2K_HOME", str(tmp_path / "home"))
    return load_pipeline([write_pipeline(tmp_path, "s:9092", "t:9092", ["orders"])])


def test_a_row_for_each_source_partition_of_a_position() -> None:
    exact = Row(ALL, ((ONE, CommittedOffset(5)), (OTHER, CommittedOffset(6))), 7, None, CommitDecision.EXACT, True)
    unknown = Row(OTHER, ((ONE, CommittedOffset(1)),), -1, None, CommitDecision.UNKNOWN, False)
    decisions = {"writers": GroupDecision("writers", {}, [unknown]), "readers": GroupDecision("readers", {}, [exact])}
    result = PollResult(Version(1, 2), decisions, source_ends={ONE: 7}, target_ends={ALL: Ends(0, 10)})
    assert list(group_positions(result)) == [
        _POSITION,
        replace(_POSITION, source_topic="b", source_partition=1, source_offset=6, left_on_source=None),
        GroupPosition("writers", "b", 1, None, None, "unknown", "a", 0, 1, 6),
    ]


@pytest.mark.spark
def test_what_is_written_is_read(spark: SparkSession, pipeline: Pipeline) -> None:
    with pytest.raises(NoTable, match="materialize the asset"):
        read_group_positions_table(spark, pipeline)
    unknown = replace(_POSITION, group="writers", target_offset=None, left_on_target=None, state="unknown")
    write_group_positions(spark, pipeline, [])
    assert read_group_positions_table(spark, pipeline).count() == 0
    write_group_positions(spark, pipeline, [_POSITION, unknown])
    rows = read_group_positions_table(spark, pipeline).orderBy("group").collect()
    assert [GroupPosition(**row.asDict()) for row in rows] == [_POSITION, unknown]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("rows", "column"),
    [
        ([replace(_POSITION, target_offset=-1)], "target_offset"),
        pytest.param([replace(_POSITION, source_topic="no topic")], "source_topic", marks=pytest.mark.slow),
        pytest.param([replace(_POSITION, state="else")], "state", marks=pytest.mark.slow),
        pytest.param([_POSITION, replace(_POSITION, source_offset=9)], "group", marks=pytest.mark.slow),
    ],
)
def test_a_broken_row_is_not_written(spark: SparkSession, rows: list[GroupPosition], column: str) -> None:
    with pytest.raises(BrokenTable, match=column):
        group_positions_frame(spark, rows)
