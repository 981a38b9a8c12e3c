"""Turns a selection by names or by a regular expression into patterns of ACLs: a name, a prefix, or everything."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

_QUANTIFIERS = "*+?{"
# Inline flags may change the meaning of the letters after them, even in later alternatives.
_FLAGS = re.compile(r"\(\?[a-zA-Z-]")
_GROUP = re.compile(r"\((?!\?)|\(\?:")
_MOST = 64


class NamePattern(NamedTuple):
    """The pattern of one ACL.

    Attributes:
        name: A name, or the beginning of names; `*` alone means every name, as in Kafka.
        prefixed: Whether the pattern covers all names that begin with `name`.
    """

    name: str
    prefixed: bool = False

    def covers(self, name: str) -> bool:
        return self == ALL or (name.startswith(self.name) if self.prefixed else name == self.name)

    def __str__(self) -> str:
        return "every name" if self == ALL else f"'{self.name}...'" if self.prefixed else f"'{self.name}'"


ALL = NamePattern("*")
# Stands for any name that a pattern covers; no resource has it.
_PROBE = "k2k-permission-check"


def name_in(pattern: NamePattern) -> str:
    """A name that a pattern covers, to ask Kafka about the pattern."""
    if pattern == ALL:
        return _PROBE
    return f"{pattern.name}{_PROBE}" if pattern.prefixed else pattern.name


def patterns_of(selection: str | Iterable[str]) -> list[NamePattern]:
    """The narrowest patterns that cover a selection.

    Args:
        selection: One Java regular expression that matches whole names, or names.
    """
    if not isinstance(selection, str):
        # A group may have the name "*", which in an ACL would mean every group.
        return [NamePattern(name, prefixed=name == ALL.name) for name in dict.fromkeys(selection)]
    if _FLAGS.search(selection):
        return [ALL]
    found = list(islice(_patterns(selection), _MOST + 1))
    return _narrowest(found) if len(found) <= _MOST else [ALL]


def _narrowest(patterns: Iterable[NamePattern]) -> list[NamePattern]:
    """Drops patterns that another one covers."""
    known = list(dict.fromkeys(patterns))
    if ALL in known:
        return [ALL]
    return [
        pattern
        for pattern in known
        if not any(other.prefixed and other != pattern and other.covers(pattern.name) for other in known)
    ]


def _patterns(regex: str) -> Iterator[NamePattern]:
    """One pattern for each alternative; a group of alternatives right behind literal text is expanded."""
    for alternative in _alternatives(regex):
        literal, stopped = _literal_start(alternative)
        group = _GROUP.match(alternative, stopped)
        end = _closing(alternative, stopped) if group else None
        if group and end is not None and alternative[end + 1 : end + 2] not in tuple(_QUANTIFIERS):
            before, inner, rest = alternative[:stopped], alternative[group.end() : end], alternative[end + 1 :]
            for choice in _alternatives(inner):
                yield from _patterns(f"{before}{choice}{rest}")
        elif stopped == len(alternative) and literal:
            yield NamePattern(literal)
        elif literal:
            yield NamePattern(literal, prefixed=True)
        else:
            yield ALL


def _literal_start(regex: str) -> tuple[str, int]:
    """The literal text that every match begins with, and its end in the expression."""
    found: list[str] = []
    at = 1 if regex.startswith("^") else 0
    while at < len(regex):
        char = regex[at]
        if char == "$" and at == len(regex) - 1:
            return "".join(found), len(regex)
        if char in _QUANTIFIERS:
            # The quantifier lets the last character occur several times, or not at all.
            return "".join(found[:-1] if char != "+" else found), at
        if char in ".[($^|)":
            break
        if char != "\\":
            found.append(char)
            at += 1
        elif regex.startswith("\\Q", at):
            end = regex.find("\\E", at)
            end = len(regex) if end < 0 else end
            found += regex[at + 2 : end]
            at = min(end + 2, len(regex))
        elif at + 1 < len(regex) and not regex[at + 1].isalnum():
            found.append(regex[at + 1])
            at += 2
        else:
            break
    return "".join(found), at


def _alternatives(regex: str) -> list[str]:
    """Splits an expression at the bars that lie in no group."""
    found, begin = [], 0
    for at, depth in _depths(regex):
        if regex[at] == "|" and depth == 0:
            found.append(regex[begin:at])
            begin = at + 1
    return [*found, regex[begin:]]


def _closing(regex: str, opening: int) -> int | None:
    """The end of the group that begins at `opening`; None if it has none."""
    return next((at for at, depth in _depths(regex) if at > opening and regex[at] == ")" and depth == 0), None)


def _depths(regex: str) -> Iterator[tuple[int, int]]:
    """Yields characters that are neither escaped nor in a class, each with the number of groups open behind it."""
    depth, at, in_class = 0, 0, False
    while at < len(regex):
        char = regex[at]
        if regex.startswith("\\Q", at):
            end = regex.find("\\E", at)
            at = len(regex) if end < 0 else end + 2
            continue
        if char == "\\":
            at += 2
            continue
        if in_class:
            in_class = char != "]"
        elif char == "[":
            in_class = True
            at += 1 if regex[at + 1 : at + 2] in ("^", "]") else 0
        else:
            depth += (char == "(") - (char == ")")
            yield at, depth
        at += 1
