"""A table on disk: Parquet files of versions, and a small file that names the current version, replaced atomically.

A reader never sees half a table: the files of a version are complete before it becomes the current one, and the
previous version is kept until the next one.
"""

from __future__ import annotations

import json
import shutil
import time
import uuid
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from k2k_assets.core.atomic_file import write_atomically
from k2k_assets.core.errors import K2KError
from k2k_assets.core.home import index_directory
from k2k_assets.pipeline import Pipeline
from k2k_assets.verification.pandera_report import broken_rules, offending_rows

_POINTER = "table.json"
_ROWS_SHOWN = 3


class NoTable(K2KError):
    """The table was not written yet, or cannot be read."""


class BrokenTable(K2KError):
    """A row breaks a rule of the table's model."""


def validated(frame: DataFrame, model: Any, refusal: str) -> DataFrame:
    """Validates all rows of a frame by a model; returns the frame.

    Args:
        frame: The frame to write.
        model: A pandera model.
        refusal: Beginning of the error's text.

    Raises:
        BrokenTable: A row breaks a rule.
    """
    if faults := broken_rules(frame, model):
        rows = "; ".join(_words(row) for row in offending_rows(frame, model, _ROWS_SHOWN))
        raise BrokenTable(f"{refusal}: {'; '.join(faults)}{f' ({rows})' if rows else ''}")
    return frame


def _words(row: Row) -> str:
    return ", ".join(f"{name}={value}" for name, value in row.asDict().items())


def directory_of(pipeline: Pipeline, table: str) -> Path:
    """Directory of a table.

    Args:
        pipeline: The pipeline.
        table: Name of the table.
    """
    return index_directory(pipeline.name, pipeline.index.path) / "tables" / table


def write(frame: DataFrame, pipeline: Pipeline, table: str) -> Path:
    """Writes a new version of a table and makes it the current one; removes versions before the previous one.

    Returns:
        The directory of the table.
    """
    directory = directory_of(pipeline, table)
    # Names rise with time, for people who look; the random part keeps two writers apart.
    version = f"{time.time_ns() // 1_000_000}-{uuid.uuid4().hex[:8]}"
    frame.coalesce(1).write.parquet(str(directory / version))
    previous = _named(directory)
    write_atomically(directory / _POINTER, json.dumps({"version": version, "previous": previous}) + "\n")
    for old in directory.glob("*-*"):
        if old.name not in (version, previous) and old.name < version:
            shutil.rmtree(old, ignore_errors=True)
    return directory


def read(spark: SparkSession, pipeline: Pipeline, table: str) -> DataFrame:
    """Reads the newest version of a table.

    Raises:
        NoTable: The table was not written yet.
    """
    directory = directory_of(pipeline, table)
    version = _named(directory)
    if version is None:
        raise NoTable(f"{directory} holds no table yet: materialize the asset of pipeline {pipeline.name} first")
    return spark.read.parquet(str(directory / version))


def _named(directory: Path) -> str | None:
    try:
        return str(json.loads((directory / _POINTER).read_text(encoding="utf-8"))["version"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NoTable(f"{directory / _POINTER} cannot be read ({error}): delete {directory}") from None
