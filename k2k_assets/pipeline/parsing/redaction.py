"""Removes values of variables from messages, because they may be secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from k2k_assets.pipeline.parsing.document import Node
from k2k_assets.pipeline.parsing.problems import Problem, describe, shorten

_LONG_ENOUGH = 4  # shorter texts are only hidden in quotes, because they occur in many words


def redacting(root: Node) -> Callable[[Problem], Problem]:
    """Replaces values by the variables that gave them, in the problems of a document.

    Args:
        root: The document.
    """
    forms = dict(_forms(root))
    by_length = sorted(forms, key=len, reverse=True)

    def redacted(problem: Problem) -> Problem:
        message = problem.message
        for form in by_length:
            message = message.replace(form, forms[form])
        return replace(problem, message=message)

    return redacted


def _forms(node: Node) -> Iterator[tuple[str, str]]:
    """Each text by which a message may show a variable's value, and its replacement."""
    if isinstance(node.value, dict | list):
        for item in node.value.values() if isinstance(node.value, dict) else node.value:
            yield from _forms(item)
    elif node.origin and node.value not in (None, ""):
        yield describe(node.value), f"the value of {node.origin}"
        text = str(node.value)
        if len(text) >= _LONG_ENOUGH:
            yield text, node.origin
            yield shorten(text), node.origin
