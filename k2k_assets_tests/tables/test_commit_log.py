"""The commit log as a DataFrame: its rules, and its versions on disk."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from k2k_assets.pipeline import Pipeline
from k2k_assets.status.positions import PositionRow
from k2k_assets.tables import stored
from k2k_assets.tables.commit_log import commit_log_frame, read_commit_log_table, write_commit_log
from k2k_assets.tables.stored import BrokenTable, NoTable
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
def test_what_is_written_is_read(spark: SparkSession, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoTable, match="materialize the asset"):
        read_commit_log_table(spark, pipeline)
    for position in (5, 6, 7):
        write_commit_log(spark, pipeline, [replace(_POSITION, position=position), _UNKNOWN])
        one, other = read_commit_log_table(spark, pipeline).orderBy("partition").collect()
        assert (one["position"], one["lag"], one["seconds_behind"]) == (position, 3, 2.5)
        assert one["committed"].astimezone(UTC) == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
        assert (other["source_end"], other["lag"], other["target_end"]) == (None, None, None)
    assert len(_versions(pipeline)) == 3, "somebody may be reading them"
    now = stored._now_ms()
    monkeypatch.setattr(stored, "_now_ms", lambda: now + 3_700_000)
    (_folder(pipeline) / f".{now}-00000000").mkdir()  # of a writer that was killed
    write_commit_log(spark, pipeline, [_POSITION])
    assert len(_versions(pipeline)) == 2, "the newest, and the one that it has just superseded"


@pytest.mark.slow
def test_who_is_slower_takes_nothing_away(
    spark: SparkSession, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has written a newer version when this one's is complete."""
    real, newer = Path.rename, [replace(_POSITION, position=9)]

    def renamed(path: Path, target: Path) -> Path:
        if rows := list(newer):
            newer.clear()
            write_commit_log(spark, pipeline, rows)
            assert [row["position"] for row in read_commit_log_table(spark, pipeline).collect()] == [9]
        return real(path, target)

    monkeypatch.setattr(Path, "rename", renamed)
    write_commit_log(spark, pipeline, [_POSITION])
    assert [row["position"] for row in read_commit_log_table(spark, pipeline).collect()] == [9]
    write_commit_log(spark, pipeline, [_POSITION])
    assert [row["position"] for row in read_commit_log_table(spark, pipeline).collect()] == [5]


def _folder(pipeline: Pipeline) -> Path:
    folder = stored.directory_of(pipeline, "commit_log").local
    assert folder
    return folder


def _versions(pipeline: Pipeline) -> list[str]:
    return [path.name for path in _folder(pipeline).iterdir()]


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


@pytest.mark.slow
def test_the_next_version_is_the_current_one_also_where_a_clock_is_late(
    spark: SparkSession, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_commit_log(spark, pipeline, [])
    now = stored._now_ms()
    monkeypatch.setattr(stored, "_now_ms", lambda: now - 600_000)
    write_commit_log(spark, pipeline, [_POSITION])
    assert read_commit_log_table(spark, pipeline).count() == 1
