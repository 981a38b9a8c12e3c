"""Where an index lies: a folder that all share, or an object store, of which each machine keeps copies of files.

Segments and versions are written once, under names of their own. So a copy of a file is as good as the file: it is
fetched once, when it is needed first, and removed when no version needs it.

In an object store nothing can be locked. What makes one writer at a time do its work there is the number in each name:
files for version n begin with n, and only the manifest n can be the first to name them. Of several builds that make
version n at once, one can create that manifest; the files of the others are of no use to anybody from then on. So
files are removed that no version needs and whose number is not above the current one, and no build that is at work
loses any, however long it takes.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from contextlib import suppress
from pathlib import Path

from k2k_assets.core.home import cache_directory, index_directory
from k2k_assets.core.object_folder import ObjectFolder
from k2k_assets.core.state_path import StatePath
from k2k_assets.pipeline import Pipeline

IndexRoot = Path | ObjectFolder
"""The directory of an index."""

# A copy that no version needs is kept for so long, because somebody on this machine may just be going to open it.
_COPY_SECONDS = 3600.0


def root_of(pipeline: Pipeline) -> IndexRoot:
    """Where the index of a pipeline lies.

    Raises:
        K2KError: The user has no home directory, or it is an address of something that is no object store.
    """
    place: StatePath = index_directory(pipeline.name, pipeline.index.path)
    return ObjectFolder(place.address) if place.local is None else place.local


def writable(root: IndexRoot, folder: str, name: str, file: str) -> Path:
    """The path to which a new file is written; its directory is made. `publish` has to follow."""
    path = _local(root) / folder / name / file
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def publish(root: IndexRoot, folder: str, name: str, file: str) -> None:
    """Puts a file that is written, and closed, where all can read it."""
    if isinstance(root, ObjectFolder):
        root.upload(f"{folder}/{name}/{file}", _local(root) / folder / name / file)


def fetched(root: IndexRoot, folder: str, name: str, file: str) -> Path:
    """The path of a file that never changes.

    Raises:
        FileNotFoundError: It was removed; in a folder this shows when the path is opened.
        OSError: It cannot be fetched.
    """
    path = _local(root) / folder / name / file
    if isinstance(root, ObjectFolder) and not path.exists():
        root.download(f"{folder}/{name}/{file}", path)
    return path


def existing(root: IndexRoot, folder: str) -> set[tuple[str, str]]:
    """Name and file of all that lies in a folder of an index."""
    if isinstance(root, Path):
        return {(path.parent.name, path.name) for path in (root / folder).glob("*/*")}
    return {(name, file) for name, _, file in (path.partition("/") for path in root.names(folder))}


def remove(root: IndexRoot, folder: str, kept: set[str], current: int) -> None:
    """Removes what no version needs.

    Args:
        root: Directory of the index.
        folder: Its folder of versions, or of segments.
        kept: Names that are needed.
        current: Number of the current version, which was the newest when `kept` was found.
    """
    if isinstance(root, Path):
        for path in (root / folder).glob("*"):
            if path.name not in kept:
                shutil.rmtree(path, ignore_errors=True)
        return
    for name, file in sorted(existing(root, folder)):
        if name not in kept and _number(name) <= current:
            root.remove(f"{folder}/{name}/{file}")


def remove_copies(root: IndexRoot, folder: str, kept: set[str], current: int) -> None:
    """Removes old copies of this machine, of files that no version needs."""
    if isinstance(root, Path):
        return
    for path in (_local(root) / folder).glob("*"):
        with suppress(OSError):
            old = time.time() - path.stat().st_mtime > _COPY_SECONDS
            if old and path.name not in kept and _number(path.name) <= current:
                shutil.rmtree(path, ignore_errors=True)


def _local(root: IndexRoot) -> Path:
    if isinstance(root, Path):
        return root
    return cache_directory() / "index" / hashlib.sha256(root.address.encode()).hexdigest()[:24]


def _number(name: str) -> int:
    """The number of the version for which something was written; what is not ours stays."""
    number = name.partition("-")[0]
    return int(number) if number.isdecimal() else 2**63
