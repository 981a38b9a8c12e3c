"""Files that only their owner may read: keys and passwords of a secured sandbox."""

from __future__ import annotations

import os
from pathlib import Path


def private_directory(path: Path) -> Path:
    """Makes a directory that only its owner may enter, and returns it."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o700)
    return path


def write_private(path: Path, text: str) -> Path:
    """Writes a file that only its owner may read, from its first byte on, and returns it."""
    staging = path.with_name(f".{path.name}.new")
    staging.unlink(missing_ok=True)
    with os.fdopen(os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    return staging.replace(path)
