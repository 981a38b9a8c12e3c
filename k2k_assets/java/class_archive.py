"""Keeps archives of the classes that a broker or Spark loads while it starts, which halve the cost of a start.

This is Java's class-data sharing. An archive is made once, by a start of the program for this purpose only. It is
optional: a Java that it does not fit ignores it, and without it programs only start more slowly.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path


def archive_of(jars: Path, java: Path) -> Path:
    """Path of the archive for these jars and this Java, beside the jars; it may not exist yet.

    Args:
        jars: Directory of the jars.
        java: The `java` program.
    """
    program = java.resolve()
    found = program.stat()
    digest = hashlib.sha256(f"{program} {found.st_size} {found.st_mtime_ns}".encode()).hexdigest()[:8]
    return jars.with_name(f"{jars.name}-{digest}.jsa")


def flags_with(archive: Path) -> list[str]:
    """The Java flags that use an archive; empty if it does not exist."""
    return [f"-XX:SharedArchiveFile={archive}"] if archive.is_file() else []


def make_archive(archive: Path, start_and_stop: Callable[[list[str]], None]) -> None:
    """Makes an archive if it does not exist; it appears complete or not at all.

    Args:
        archive: Path of the archive.
        start_and_stop: Starts the program with the given Java flags, and ends it in an orderly way.
    """
    if archive.is_file():
        return
    staging = archive.with_name(f".making-{archive.name}")
    staging.unlink(missing_ok=True)
    try:
        start_and_stop([f"-XX:ArchiveClassesAtExit={staging}"])
        staging.rename(archive)
    finally:
        staging.unlink(missing_ok=True)
