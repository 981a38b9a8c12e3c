"""The commit log as a DataFrame: its rules, and its versions on disk."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from k2k_assets.pipeline import Pipeline
from k2k_assets.status.positions import PositionRow
from k2k_assets.tables.commit_log import commit_log_frame, read_commit_log_table, write_commit_log
from k2k_assets.tables.stored import BrokenTable, NoTable, directory_of
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = pytest.mark.spark

_POSITION = PositionRow(
    topic="orders",
    partition=0,
    position=5,
    source_end=8,
    lag=3,
    seconds_behind=2.5,
    target_topic="copy.orders",
    target_end=5,
    kind="commit",
    committed=1_000,
    owner="generation 1, slot 0",
    stop_code="",
    stop_reason="",
)
_UNKNOWN = replace(_POSITION, partition=1, source_end=None, lag=None, seconds_behind=None, target_end=None)


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    monkeypatch.setenv("K2K_HOME", str(tmp_path / "home"))
    return make_pipeline(tmp_path, "s:9092", "t:9092", ["orders"])


@pytest.mark.slow
def test_what_is_written_is_read(spark: SparkSession, pipeline: Pipeline) -> None:
    with pytest.raises(NoTable, match="materialize the asset"):
        read_commit_log_table(spark, pipeline)
    for position in (5, 6, 7):
        write_commit_log(spark, pipeline, [replace(_POSITION, position=position), _UNKNOWN])
        one, other = read_commit_log_table(spark, pipeline).orderBy("partition").collect()
        assert (one["position"], one["lag"], one["seconds_behind"]) == (position, 3, 2.5)
        assert one["committed"].astimezone(UTC) == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
        assert (other["source_end"], other["lag"], other["target_end"]) == (None, None, None)
    directory = directory_of(pipeline, "commit_log").local
    assert directory
    versions = [path for path in directory.iterdir() if path.is_dir()]
    assert len(versions) == 2, "the newest, and the one that somebody may be reading"


def test_an_empty_one(spark: SparkSession, pipeline: Pipeline) -> None:
    """A pipeline that has copied nothing has an empty table, not none."""
    write_commit_log(spark, pipeline, [])
    assert read_commit_log_table(spark, pipeline).count() == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "column"),
    [
        ([replace(_POSITION, position=-1)], "position"),
        ([replace(_POSITION, topic="no topic")], "topic"),
        ([replace(_POSITION, kind="else")], "kind"),
        ([_POSITION, _POSITION], "topic"),
    ],
)
def test_a_broken_row_is_not_written(
    spark: SparkSession, pipeline: Pipeline, rows: list[PositionRow], column: str
) -> None:
    with pytest.raises(BrokenTable, match=column):
        commit_log_frame(spark, rows)


def test_a_pointer_that_is_none(spark: SparkSession, pipeline: Pipeline) -> None:
    write_commit_log(spark, pipeline, [_POSITION])
    (directory_of(pipeline, "commit_log") / "table.json").replace("{}")
    with pytest.raises(NoTable, match=r"table\.json cannot be read"):
        read_commit_log_table(spark, pipeline)
