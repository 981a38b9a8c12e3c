"""A table on disk: Parquet files of versions, and a small file that names the current version, replaced atomically.

A reader never sees half a table: the files of a version are complete before it becomes the current one, and the
previous version is kept until the next one.

In an object store a version is one object, which the driver writes and reads; Spark needs no client of the store.
There a version stays for an hour, so that who was slower to write, or reads, loses nothing.
"""

from __future__ import annotations

import io
import json
import shutil
import time
import uuid
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession

from k2k_assets.core.errors import K2KError
from k2k_assets.core.home import index_directory
from k2k_assets.core.object_folder import ObjectFolder
from k2k_assets.core.state_path import StatePath, StoreError
from k2k_assets.pipeline import Pipeline
from k2k_assets.verification.pandera_report import broken_rules, offending_rows

_POINTER = "table.json"
_ROWS_SHOWN = 3
_ATTEMPTS = 5
# Longer than a write takes, and than clocks of two machines differ.
_KEPT_MS = 3_600_000


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
        rows = "; ".join(_message(row) for row in offending_rows(frame, model, _ROWS_SHOWN))
        raise BrokenTable(f"{refusal}: {'; '.join(faults)}{f' ({rows})' if rows else ''}")
    return frame


def _message(row: Row) -> str:
    return ", ".join(f"{name}={value}" for name, value in row.asDict().items())


def directory_of(pipeline: Pipeline, table: str) -> StatePath:
    """Directory of a table.

    Args:
        pipeline: The pipeline.
        table: Name of the table.
    """
    return index_directory(pipeline.name, pipeline.index.path) / "tables" / table


def write(frame: DataFrame, pipeline: Pipeline, table: str) -> StatePath:
    """Writes a new version of a table and makes it the current one; removes versions before the previous one.

    Returns:
        The directory of the table.

    Raises:
        OSError: It cannot be written.
    """
    directory = directory_of(pipeline, table)
    # Names rise with time, for people who look; the random part keeps two writers apart.
    version = f"{_now_ms()}-{uuid.uuid4().hex[:8]}"
    if (path := directory.local) is None:
        _store(frame, directory, version)
        return directory
    frame.coalesce(1).write.parquet(str(path / version))
    previous = _named(directory)
    (directory / _POINTER).replace(_pointer(version, previous))
    for old in path.glob("*-*"):
        if old.name not in (version, previous) and old.name < version:
            shutil.rmtree(old, ignore_errors=True)
    return directory


def _store(frame: DataFrame, directory: StatePath, version: str) -> None:
    file = io.BytesIO()
    pq.write_table(frame.toArrow(), file, compression="zstd")
    folder = ObjectFolder(directory.address)
    name = f"{version}.parquet"
    (directory / name).replace(file.getvalue())
    previous = _named(directory)
    if previous is not None and previous > version:
        return  # somebody has written a newer one meanwhile
    (directory / _POINTER).replace(_pointer(version, previous))
    kept = (name, f"{previous}.parquet")
    for old in folder.names():
        written = old.partition("-")[0]
        if old not in kept and written.isdecimal() and int(written) < _now_ms() - _KEPT_MS:
            folder.remove(old)


def read(spark: SparkSession, pipeline: Pipeline, table: str) -> DataFrame:
    """Reads the newest version of a table.

    Raises:
        NoTable: The table was not written yet.
        StoreError: The object store does not answer.
    """
    directory = directory_of(pipeline, table)
    for _ in range(_ATTEMPTS):
        version = _named(directory)
        if version is None:
            raise NoTable(f"{directory} holds no table yet: materialize the asset of pipeline {pipeline.name} first")
        if directory.local is not None:
            return spark.read.parquet(str(directory / version))
        try:
            content = (directory / f"{version}.parquet").read()
        except FileNotFoundError:
            continue  # it was replaced an hour ago, and removed since its name was read
        return spark.createDataFrame(pq.read_table(io.BytesIO(content)))
    raise NoTable(f"{directory / _POINTER} names a version that is not there: materialize the asset anew")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _pointer(version: str, previous: str | None) -> str:
    return json.dumps({"version": version, "previous": previous}) + "\n"


def _named(directory: StatePath) -> str | None:
    try:
        return str(json.loads((directory / _POINTER).read())["version"])
    except FileNotFoundError:
        return None
    except StoreError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NoTable(f"{directory / _POINTER} cannot be read ({error}): delete {directory}") from None
