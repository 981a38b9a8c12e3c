"""Test files and folders that `-m` deselects as a whole: to import them would cost each worker seconds, for nothing."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_MARKS_OF_THE_FILE = re.compile(r"^pytestmark = (.*?)^(?=[^\s\])])", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"\bpytest\.mark\.(\w+)")
_NOT = re.compile(r"not (\w+)")


def is_deselected(path: Path, expression: str) -> bool:
    """Whether no test can be selected there, because each file's `pytestmark` names what the expression leaves out.

    Args:
        path: A module, or a folder with modules at any depth.
        expression: What `-m` says.
    """
    names = left_out(expression)
    files = [*path.rglob("test_*.py")] if path.is_dir() else [path]
    return bool(files) and not any(names.isdisjoint(_marks(file)) for file in files)


@cache
def left_out(expression: str) -> frozenset[str]:
    """The marks that `-m` leaves out; of an expression that is more than a row of "not MARK and not MARK" none."""
    found = [_NOT.fullmatch(each.strip()) for each in expression.split(" and ")]
    return frozenset(each[1] for each in found if each) if all(found) else frozenset()


@cache
def _marks(file: Path) -> frozenset[str]:
    """What the file's `pytestmark` names: read and not imported."""
    found = _MARKS_OF_THE_FILE.search(file.read_text(encoding="utf-8"))
    return frozenset(_MARK.findall(found[1])) if found else frozenset()
