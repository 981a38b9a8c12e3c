"""The archive of Spark's classes is used if it exists, once, beside the user's settings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from k2k_assets.spark import spark_classes, spark_command
from k2k_assets.spark.java_process import add_options
from k2k_assets.spark.spark_command import archive_flags


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(spark_command, "spark_home", lambda: tmp_path)
    return tmp_path


@pytest.fixture
def java(tmp_path: Path) -> Path:
    program = tmp_path / "java"
    program.write_text("")
    return program


def test_without_one_nothing_is_changed(jars: Path, java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dmine=1")
    add_options(archive_flags(java))
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Dmine=1"


def test_it_is_added_once_to_what_is_set(jars: Path, java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = spark_command.archive(java)
    assert archive.parent == jars
    archive.write_bytes(b"classes")
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dmine=1")
    for _ in range(2):
        add_options(archive_flags(java))
    assert os.environ["SPARK_SUBMIT_OPTS"] == f"-Dmine=1 -XX:SharedArchiveFile={archive}"


def test_nothing_is_left_where_it_cannot_be_made(jars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_classes, "find_java", lambda: Path("/bin/false"))
    before = set(jars.iterdir())
    spark_classes.main()
    assert set(jars.iterdir()) == before
