"""A table on disk: versions under names that rise, of which the highest is the current one. Nothing is replaced.

```
 1700000000123-0a1b2c3d     superseded: stays for an hour after the next one was begun
 1700000600456-4e5f6a7b     the current one
.1700000600789-8c9d0e1f     is being written, and gets its name when it is complete
```

A version appears as a whole: a folder gets its name when Spark has written it, and an object is put at once. So a
reader never sees half a table, and nothing has to be locked: the version of who was slower to write comes below the
newer one, and what is current does not change. Only what lies below another version is removed, so the highest is
always there.

In an object store a version is one object, which the driver writes and reads; Spark needs no client of the store.
"""

from __future__ import annotations

import io
import re
import shutil
import time
import uuid
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession

from k2k_assets.core.errors import K2KError
from k2k_assets.core.home import index_directory
from k2k_assets.core.object_folder import ObjectFolder
from k2k_assets.core.state_path import StatePath
from k2k_assets.pipeline import Pipeline
from k2k_assets.verification.pandera_report import broken_rules, offending_rows

_ROWS_SHOWN = 3
_ATTEMPTS = 5
# Of a superseded version. Longer than a read takes, and than clocks of two machines differ.
_KEPT_MS = 3_600_000
_VERSION = re.compile(r"\d+-[0-9a-f]{8}")
_SUFFIX = ".parquet"


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
    """Writes a new version of a table, and removes those that were superseded long ago.

    It becomes the current one, unless somebody who began later has written one meanwhile.

    Returns:
        The directory of the table.

    Raises:
        OSError: It cannot be written.
    """
    directory = directory_of(pipeline, table)
    version = _next_version(_versions(directory))
    if (path := directory.local) is None:
        file = io.BytesIO()
        pq.write_table(frame.toArrow(), file, compression="zstd")
        (directory / f"{version}{_SUFFIX}").replace(file.getvalue())
    else:
        unfinished = path / f".{version}"
        frame.coalesce(1).write.parquet(str(unfinished))
        unfinished.rename(path / version)
    _clean_up(directory)
    return directory


def read(spark: SparkSession, pipeline: Pipeline, table: str) -> DataFrame:
    """Reads the newest version of a table.

    Raises:
        NoTable: The table was not written yet.
        StoreError: The object store does not answer.
    """
    directory = directory_of(pipeline, table)
    for _ in range(_ATTEMPTS):
        if not (versions := _versions(directory)):
            raise NoTable(f"{directory} holds no table yet: materialize the asset of pipeline {pipeline.name} first")
        if directory.local is not None:
            return spark.read.parquet(str(directory / versions[-1]))
        try:
            content = (directory / f"{versions[-1]}{_SUFFIX}").read()
        except FileNotFoundError:
            continue  # it was superseded an hour ago, and removed since it was listed
        return spark.createDataFrame(pq.read_table(io.BytesIO(content)))
    raise NoTable(f"{directory}: what is listed there is not there: materialize the asset anew")


def _versions(directory: StatePath) -> list[str]:
    """The complete versions of a table, the current one last."""
    if (path := directory.local) is not None:
        return _sorted(each.name for each in path.glob("*"))
    names = ObjectFolder(directory.address).names()
    return _sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))


def _sorted(names: Iterable[str]) -> list[str]:
    return sorted(filter(_VERSION.fullmatch, names), key=lambda name: (_time_of(name), name))


def _next_version(versions: Sequence[str]) -> str:
    """A name above all others, also where clocks differ; the random part keeps two writers apart."""
    above = max(map(_time_of, versions), default=0) + 1
    return f"{max(_now_ms(), above)}-{uuid.uuid4().hex[:8]}"


def _clean_up(directory: StatePath) -> None:
    """Removes what lies below a version that is old itself, and what killed writers have left."""
    old = _now_ms() - _KEPT_MS
    doomed = [name for name, newer in pairwise(_versions(directory)) if _time_of(newer) < old]
    if (path := directory.local) is None:
        folder = ObjectFolder(directory.address)
        for name in doomed:
            folder.remove(f"{name}{_SUFFIX}")
        return
    unfinished = _sorted(each.name.removeprefix(".") for each in path.glob(".*"))
    for name in (*doomed, *(f".{name}" for name in unfinished if _time_of(name) < old)):
        shutil.rmtree(path / name, ignore_errors=True)


def _time_of(version: str) -> int:
    """When the writer of a version began, in milliseconds since the epoch."""
    return int(version.partition("-")[0])


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
