"""How Spark's Java process is called: the flags that `bin/spark-submit` finds out, and the archive of classes.

Both are made by `make setup` (`spark_classes`) and lie beside Spark's jars, so that they go when those go. Nothing of
pyspark is imported here.
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
    """The `java` that spark-submit would take; None where there is none. Whether it is new enough is not looked at."""
    if home := os.environ.get("JAVA_HOME"):
        return Path(home, "bin", "java")
    found = shutil.which("java")
    return Path(found) if found else None


def archive(java: Path) -> Path:
    """Where the archive of classes for a Java is, or will be."""
    jars = spark_home() / "jars"
    return archive_of(jars.with_name(f"{jars.name}-{version('pyspark')}-start"), java)


def archive_flags(java: Path) -> list[str]:
    """The flags that use the archive, if it is there."""
    return flags_with(archive(java))


def flags_file(java: Path) -> Path:
    """Where the flags for a Java are remembered, or will be."""
    return archive(java).with_suffix(".json")


def remembered_flags(java: Path) -> list[str] | None:
    """What spark-submit calls Java with, up to the main class; None where nobody has asked it."""
    try:
        flags: list[str] = json.loads(flags_file(java).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return flags
