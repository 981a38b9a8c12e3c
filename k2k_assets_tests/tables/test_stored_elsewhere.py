"""Tables in an object store: an object a version, of which the driver reads the current one."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from k2k_assets.core.object_folder import ObjectFolder
from k2k_assets.core.state_path import StatePath
from k2k_assets.pipeline import Pipeline
from k2k_assets.tables import stored
from k2k_assets.tables.commit_log import commit_log_frame, read_commit_log_table, write_commit_log
from k2k_assets.tables.stored import NoTable
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.tables.test_commit_log import _POSITION, _UNKNOWN

pytestmark = pytest.mark.spark


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    monkeypatch.setenv("K2K_HOME", f"memory://{uuid.uuid4().hex}")
    return make_pipeline(tmp_path, "s:9092", "t:9092", ["orders"])


def _versions(pipeline: Pipeline) -> set[str]:
    return ObjectFolder(str(stored.directory_of(pipeline, "commit_log"))).names()


@pytest.mark.slow
def test_what_is_written_is_read(spark: SparkSession, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoTable, match="materialize the asset"):
        read_commit_log_table(spark, pipeline)
    hour = 0
    now = stored._now_ms()
    monkeypatch.setattr(stored, "_now_ms", lambda: now + hour * 3_700_000)
    for position in (5, 6, 7):
        rows = [replace(_POSITION, position=position), _UNKNOWN]
        write_commit_log(spark, pipeline, rows)
        read, made = read_commit_log_table(spark, pipeline), commit_log_frame(spark, rows)
        assert read.orderBy("partition").collect() == made.orderBy("partition").collect()
        assert [(f.name, f.dataType) for f in read.schema] == [(f.name, f.dataType) for f in made.schema]
        hour += 1
    assert len(_versions(pipeline)) == 2, "the newest, and the one that it has just superseded"
    write_commit_log(spark, pipeline, [])
    assert read_commit_log_table(spark, pipeline).count() == 0


@pytest.mark.slow
def test_who_is_slower_takes_nothing_away(
    spark: SparkSession, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process writes two newer versions, hours apart, while this one stalls before it puts its own."""
    now, hour = stored._now_ms(), 0
    monkeypatch.setattr(stored, "_now_ms", lambda: now + hour * 3_700_000)
    real, stalled = StatePath.replace, [_POSITION]
    write_commit_log(spark, pipeline, [])

    def replaced(path: StatePath, content: str | bytes) -> None:
        nonlocal hour
        if stalled:
            stalled.clear()
            for position in (8, 9):
                hour += 1
                write_commit_log(spark, pipeline, [replace(_POSITION, position=position)])
        real(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(StatePath, "replace", replaced)
        write_commit_log(spark, pipeline, [_POSITION])
    assert [row["position"] for row in read_commit_log_table(spark, pipeline).collect()] == [9]
    assert len(_versions(pipeline)) == 2, "its own, which nobody was told of, is gone with the others"
