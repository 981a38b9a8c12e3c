"""Commands that messages suggest, as they can be copied: with the pipeline files of this call instead of FILE."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

_PLACEHOLDER = "-f FILE"
_files: dict[str, tuple[Path, ...]] = {}


def remember_files(option: str, files: Sequence[Path]) -> None:
    """Remembers what the user gave.

    Args:
        option: `-d` or `-f`.
        files: As they were written.
    """
    _files[option] = tuple(files)


def forget_files() -> None:
    """A new call begins."""
    _files.clear()


def with_files(text: str) -> str:
    """A message in which `-f FILE` names the files of this call; without any it stays as it is."""
    words = [word for option in sorted(_files) for file in _files[option] for word in (option, str(file))]
    return text.replace(_PLACEHOLDER, shlex.join(words)) if words else text
