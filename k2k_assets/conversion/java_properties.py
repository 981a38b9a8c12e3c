"""Reads the text of Java properties files."""

from __future__ import annotations

import re
from collections.abc import Iterator

_KEY = re.compile(r"((?:\\.|[^\\:=\s])*)[ \t\f]*[:=]?[ \t\f]*", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """The properties, in the order of the file; the last value of a repeated key counts.

    Args:
        text: Text of the file.
    """
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        key = _KEY.match(line)
        assert key is not None, "it matches the empty text"
        found[_unescaped(key[1])] = _unescaped(line[key.end() :])
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments; a line that ends with an odd number of backslashes continues in the next."""
    begun = ""
    for line in re.split(r"\r\n|\r|\n", text):
        rest = line.lstrip(" \t\f")
        if not begun and (not rest or rest[0] in "#!"):
            continue
        begun += rest
        if (len(begun) - len(begun.rstrip("\\"))) % 2:
            begun = begun[:-1]
            continue
        yield begun
        begun = ""
    if begun:
        yield begun


def _unescaped(text: str) -> str:
    """Without escapes; two of Java's characters may be one letter."""
    written = _ESCAPE.sub(lambda match: _character(match[1]), text)
    return written.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _character(escaped: str) -> str:
    if len(escaped) == 5:
        return chr(int(escaped[1:], 16))
    return _LETTERS.get(escaped, escaped)
