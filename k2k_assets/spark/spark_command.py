"""The command of Spark's Java process: the flags that `bin/spark-submit` finds out, and the archive of classes.

`make setup` makes both (`spark_classes.py`), beside Spark's jars, so that they are removed with these. This module does
not import pyspark.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from functools import cache
from importlib.metadata import version
from pathlib import Path

from k2k_assets.java.class_archive import archive_of, flags_with


@cache
def spark_home() -> Path:
    """The directory of pyspark, which is Spark's home."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def java_program() -> Path | None:
    """The `java` that spark-submit would use; None if there is none. Its version is not checked."""
    if home := os.environ.get("JAVA_HOME"):
        return Path(home, "bin", "java")
    found = shutil.which("java")
    return Path(found) if found else None


def archive(java: Path) -> Path:
    """Path of the archive of classes for a Java, which may not exist yet."""
    jars = spark_home() / "jars"
    return archive_of(jars.with_name(f"{jars.name}-{version('pyspark')}-start"), java)


def archive_flags(java: Path) -> list[str]:
    """The Java flags that use the archive; empty if it does not exist."""
    return flags_with(archive(java))


def flags_file(java: Path) -> Path:
    """Path of the stored flags for a Java, which may not exist yet."""
    return archive(java).with_suffix(".json")


def remembered_flags(java: Path) -> list[str] | None:
    """The stored flags with which spark-submit calls Java, up to the main class; None if they are not stored."""
    try:
        flags: list[str] = json.loads(flags_file(java).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return flags
