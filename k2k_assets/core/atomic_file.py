"""Replaces small files so that a reader, or a crash, sees the old one or the new one and nothing between."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, content: str | bytes) -> None:
    """Writes `content` to `path`, text as UTF-8; makes the directory when it is missing.

    Raises:
        OSError: The directory cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def remove_leftovers(path: Path) -> None:
    """Removes what killed writers of `path` have left beside it; nobody may be writing it now."""
    for left in path.parent.glob(f".{path.name}.*"):
        left.unlink(missing_ok=True)
