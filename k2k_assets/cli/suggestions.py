"""Makes suggested commands in messages ready to copy: with the pipeline files of this call instead of FILE."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from k2k_assets.core import suggested_commands

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
    return suggested_commands.with_files(text, _files)
