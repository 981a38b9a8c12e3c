"""Commands that messages suggest, as they can be copied: with the pipeline files of this call."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

_PLACEHOLDER = "-f FILE"


def with_files(text: str, files: Sequence[Path]) -> str:
    """A message in which `-f FILE` names the files that were given.

    Args:
        text: The message.
        files: As the user gave them; none: the message stays as it is.
    """
    return (
        text.replace(_PLACEHOLDER, shlex.join(word for file in files for word in ("-f", str(file)))) if files else text
    )
