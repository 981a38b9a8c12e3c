"""Keeps the brokers' jars in the user's cache: downloaded once, checked on every use.

A directory in the cache is either complete or absent: it is filled elsewhere and renamed. Processes that
fetch at once wait for each other at a lock file.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import InvalidVariable, K2KError
from k2k_assets.core.home import cache_directory
from k2k_assets.sandbox.ivy import Coordinates, download

DEFAULT_VERSION = "4.3.1"
VERSION_VARIABLE = "K2K_KAFKA_VERSION"
KAFKA = Path(__file__).with_name(f"kafka-{DEFAULT_VERSION}.jars")
# Longer than a download with all its attempts may take: a second process waits for the first one's.
_LOCK_SECONDS = 1000.0
_STAGING_PREFIX = ".fetching-"

Checksums = Mapping[Coordinates, str]
Downloader = Callable[[Sequence[Coordinates], Path], Path]


def kafka_versions() -> list[str]:
    """The versions of Kafka that the sandbox has, the newest first."""
    found = [path.stem.removeprefix("kafka-") for path in KAFKA.parent.glob("kafka-*.jars")]
    return sorted(found, key=lambda version: [int(part) for part in version.split(".")], reverse=True)


def kafka_manifest(version: str | None = None) -> Path:
    """The list of jars of a version of Kafka.

    Args:
        version: None: the one that the environment variable `K2K_KAFKA_VERSION` names, else the newest.

    Raises:
        InvalidVariable: The variable names none that the sandbox has.
        K2KError: It has not that version.
    """
    wanted = version or os.environ.get(VERSION_VARIABLE) or DEFAULT_VERSION
    if wanted in kafka_versions():
        return KAFKA.with_name(f"kafka-{wanted}.jars")
    there = f"the sandbox has Kafka {' and '.join(kafka_versions())}, not {wanted}"
    if version:
        raise K2KError(there)
    raise InvalidVariable(f"the environment variable {VERSION_VARIABLE} cannot be used: {there}")


def fetch_jars(manifest: Path = KAFKA, downloader: Downloader = download) -> Path:
    """The directory with the jars that `manifest` lists; they are downloaded when they are not there yet.

    Args:
        manifest: A file with lines of `group:artifact:version  sha256`.
        downloader: Brings jars into a directory below the one it is given, and returns it.

    Raises:
        K2KError: The jars cannot be downloaded, or one is not what the manifest says.
    """
    checksums = read_manifest(manifest)
    cache = cache_directory()
    # The manifest's digest in the name: two versions of this package do not fight over one directory.
    digest = hashlib.sha256(manifest.read_bytes()).hexdigest()[:8]
    target = cache / f"{manifest.stem}-{digest}"
    if not _faults(target, checksums):
        return target
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache / f"{target.name}.lock"):
            if _faults(target, checksums):
                _fill(target, checksums, downloader)
    except OSError as error:
        raise K2KError(f"Cannot keep jars in {cache}: {error}. Another place is named by K2K_CACHE.") from error
    return target


def read_manifest(manifest: Path) -> dict[Coordinates, str]:
    """The SHA-256 of each jar, in hexadecimal."""
    checksums = {}
    for line in manifest.read_text().splitlines():
        if line and not line.startswith("#"):
            name, checksum = line.split()
            checksums[Coordinates(*name.split(":"))] = checksum
    return checksums


def _fill(target: Path, checksums: Checksums, downloader: Downloader) -> None:
    for left_over in target.parent.glob(f"{_STAGING_PREFIX}{target.name}-*"):
        shutil.rmtree(left_over, ignore_errors=True)
    staging = Path(tempfile.mkdtemp(prefix=f"{_STAGING_PREFIX}{target.name}-", dir=target.parent))
    try:
        jars = downloader(tuple(checksums), staging)
        faults = _faults(jars, checksums)
        if faults:
            raise K2KError(f"Downloaded jars are not what {target.name} needs: {'; '.join(faults)}. Try again.")
        if target.exists():  # damaged: _faults() said so under the lock
            target.rename(staging / "damaged")
        jars.rename(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _faults(directory: Path, checksums: Checksums) -> list[str]:
    """What is wrong with the jars of a directory; reading them all (45 MB) takes some 30 ms."""
    if not directory.is_dir():
        return [f"{directory} is missing"]
    expected = {jar.file_name: checksum for jar, checksum in checksums.items()}
    faults = [f"{path.name} is not expected" for path in directory.iterdir() if path.name not in expected]
    for name, checksum in expected.items():
        path = directory / name
        if not path.is_file():
            faults.append(f"{name} is missing")
        elif _sha256(path) != checksum:
            faults.append(f"{name} has another SHA-256")
    return faults


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        wait_until(lambda: _try_lock(file.fileno()), _LOCK_SECONDS, f"another process to release {path}", 0.1)
        yield  # closing the file releases the lock, as does the death of the process


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
