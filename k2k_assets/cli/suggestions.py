"""Makes suggested commands in messages ready to copy: with the pipeline files of this call instead of FILE."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

_PLACEHOLDER = "-f FILE"
_files: dict[str, tuple[Path, ...]] = {}


def remember_files(option: str, files: Sequence[Path]) -> None:
    """Remembers the files of this call.

    Args:
        option: `-d` or `-f`.
        files: The paths that the user wrote.
    """
    _files[option] = tuple(files)


def forget_files() -> None:
    """Forgets the files, because a new call begins."""
    _files.clear()


def with_files(text: str) -> str:
    """A message with the files of this call instead of `-f FILE`; without files it stays as it is."""
    words = [word for option in sorted(_files) for value in _values(_files[option]) for word in (option, value)]
    return text.replace(_PLACEHOLDER, shlex.join(words)) if words else text


def _values(files: Sequence[Path]) -> list[str]:
    """Joins the files with commas, because `k2k-tool` treats each `-f` as a pipeline of its own."""
    names = list(map(str, files))
    return names if any("," in name for name in names) else [",".join(names)] * bool(names)
