"""Makes commands that a message suggests ready to copy: with the pipeline's files instead of `-f FILE`. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

_PLACEHOLDER = "-f FILE"


def with_files(text: str, files: Mapping[str, Sequence[Path]]) -> str:
    """A message with files instead of `-f FILE`; without files it stays as it is.

    Args:
        text: The message.
        files: The files of each option, `-d` and `-f`.
    """
    words = [word for option in sorted(files) for value in _values(files[option]) for word in (option, value)]
    return text.replace(_PLACEHOLDER, shlex.join(words)) if words else text


def _values(files: Sequence[Path]) -> list[str]:
    """Joins the files with commas, because `k2k-tool` treats each `-f` as a pipeline of its own."""
    names = list(map(str, files))
    return names if any("," in name for name in names) else [",".join(names)] * bool(names)
