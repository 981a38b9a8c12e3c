"""Fields of JSON content: found, replaced and taken out. A list on the way to a field means each of its elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Steps = tuple[str, ...]
"""The names that lead to a field; none: the content itself."""


def found(content: Any, steps: Steps) -> Sequence[Any]:
    """What the fields hold; more than one where lists lie on the way."""
    for number, name in enumerate(steps):
        if isinstance(content, list):
            return _in_list(content, steps[number:])
        if not isinstance(content, dict) or name not in content:
            return ()
        content = content[name]
    return _in_list(content, ()) if isinstance(content, list) else (content,)


def _in_list(contents: list[Any], steps: Steps) -> list[Any]:
    return [each for content in contents for each in found(content, steps)]


def replaced(content: Any, steps: Steps, replace: Callable[[Any], Any]) -> bool:
    """Replaces what the fields hold, where it is not null; returns whether anything was replaced.

    A field that holds a list or an object is replaced as a whole.
    """
    if isinstance(content, list):
        return sum(replaced(each, steps, replace) for each in content) > 0
    if not isinstance(content, dict) or steps[0] not in content:
        return False
    name, *rest = steps
    if rest:
        return replaced(content[name], tuple(rest), replace)
    if content[name] is None:
        return False
    content[name] = replace(content[name])
    return True


def removed(content: Any, steps: Steps) -> bool:
    """Takes the fields out; returns whether there were any."""
    if isinstance(content, list):
        return sum(removed(each, steps) for each in content) > 0
    if not isinstance(content, dict) or steps[0] not in content:
        return False
    name, *rest = steps
    if rest:
        return removed(content[name], tuple(rest))
    del content[name]
    return True
