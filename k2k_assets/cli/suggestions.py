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
    words = [word for option in sorted(_files) for value in _values(_files[option]) for word in (option, value)]
    return text.replace(_PLACEHOLDER, shlex.join(words)) if words else text


def _values(files: Sequence[Path]) -> list[str]:
    """With commas every program takes them for one pipeline; `k2k-tool` takes each `-f` for one of its own."""
    names = list(map(str, files))
    return names if any("," in name for name in names) else [",".join(names)] * bool(names)
