"""Faults of a pipeline file: their messages, and the known key that is most like an unknown one.

Secrets: a message only shows a value if nothing in its path looks like a credential.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from k2k_assets.core.errors import PipelineFileError

Path = tuple[str | int, ...]
"""Path of a value in the document: keys, and list positions counted from 0."""

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SECRET = re.compile(r"password|passphrase|secret|jaas|token|credential|\bkey\b|keystore|\.pem$|private|headers", re.I)
_MAX_SHOWN = 60
_MAX_LISTED = 100
MAX_HINTS = 50
"""Most unknown keys that get a suggestion, because each takes time."""


@dataclass(frozen=True, order=True)
class Problem:
    """One fault. `line` and `column` count from 1; line 0 means the file as a whole."""

    file: str
    line: int
    column: int
    path: Path
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        path = f" {format_path(self.path)}:" if self.path else ""
        return f"{where}:{path} {self.message}"


class DocumentError(Exception):
    """The text is not a usable YAML document; the error has the problems."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


def format_path(path: Path) -> str:
    """The path as a user writes it: `source.kafka.consumer."group.id"`, `replication[0].source`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            key = part if _PLAIN_KEY.fullmatch(part) else f'"{shorten(part)}"'
            text += f".{key}" if text else key
    return text


def shorten(text: str) -> str:
    """At most 60 characters of a text, with control characters made visible."""
    visible = text.encode("unicode_escape").decode("ascii") if not text.isprintable() else text
    return visible if len(visible) <= _MAX_SHOWN else visible[: _MAX_SHOWN - 3] + "..."


def is_secret(path: Path) -> bool:
    """Whether the value at a path may be a credential, which is never shown."""
    # Where client properties or Spark's settings should be a mapping, another value may be a password.
    is_side = path[:1] in (("source",), ("target",))
    client_section = is_side and (len(path) <= 3 or path[1] == "registry")
    spark_section = path in (("spark",), ("spark", "config"), ("spark", "remote"))
    return client_section or spark_section or any(isinstance(part, str) and _SECRET.search(part) for part in path)


def describe(value: object, path: Path = ()) -> str:
    """A value for "found ..." in messages: its kind, and a scalar's text unless it may be secret."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if is_secret(path):
        return "a value that is not shown"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, int | float):
        return f"the number {value}"
    return f"'{shorten(str(value))}'"


def nearest(key: str, known: Iterable[str]) -> str | None:
    """The known key that is most like `key`, or None if none is close."""
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(key.lower()[:200], by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def fail(problems: Sequence[Problem], redacted: Callable[[Problem], Problem] | None = None) -> PipelineFileError:
    """The error that lists all faults, in the order of files and lines.

    Args:
        problems: At least one problem.
        redacted: Removes values of variables from a problem.
    """
    unique = sorted(set(problems), key=lambda p: (p.file, p.line, p.column, str(p.path), p.message))
    shown = unique[:_MAX_LISTED]
    if redacted:
        shown = list(map(redacted, shown))  # only the listed ones, because it takes time
    if len(unique) == 1:
        return PipelineFileError(str(shown[0]))
    lines = [f"{len(unique)} faults in the pipeline file:", *(f"  {problem}" for problem in shown)]
    if len(unique) > _MAX_LISTED:
        lines.append(f"  and {len(unique) - _MAX_LISTED} more")
    return PipelineFileError("\n".join(lines))
