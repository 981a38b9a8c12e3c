"""Keeps archives of the classes that a broker or Spark loads while it starts: with them, a start costs half.

This is Java's own class-data sharing. An archive is made once, by a program that is started for nothing else. It is
only a convenience: a Java that it does not fit passes over it, and without it everything starts as it always did.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path


def archive_of(jars: Path, java: Path) -> Path:
    """Where the archive for these jars and this Java is, or will be: beside the jars.

    Args:
        jars: Directory of the jars.
        java: The `java` program.
    """
    program = java.resolve()
    found = program.stat()
    digest = hashlib.sha256(f"{program} {found.st_size} {found.st_mtime_ns}".encode()).hexdigest()[:8]
    return jars.with_name(f"{jars.name}-{digest}.jsa")


def flags_with(archive: Path) -> list[str]:
    """The flags that use an archive, if it is there."""
    return [f"-XX:SharedArchiveFile={archive}"] if archive.is_file() else []


def make_archive(archive: Path, start_and_stop: Callable[[list[str]], None]) -> None:
    """Makes an archive that is not there yet; it appears complete or not at all.

    Args:
        archive: Where it is to be.
        start_and_stop: Starts the program with the flags that it is given, and ends it in an orderly way.
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
