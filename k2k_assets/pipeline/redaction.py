"""Takes values that came from variables out of messages: they may be secrets, wherever they stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from k2k_assets.pipeline.document import Node
from k2k_assets.pipeline.problems import Problem, describe, shorten

_LONG_ENOUGH = 4  # shorter texts are hidden where they are quoted; elsewhere they would be found in any word


def redacting(root: Node) -> Callable[[Problem], Problem]:
    """Puts the variable in the place of each value that came from it, in the problems of a document.

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
    """Every way in which a message may show a value from a variable, and the variable."""
    if isinstance(node.value, dict | list):
        for item in node.value.values() if isinstance(node.value, dict) else node.value:
            yield from _forms(item)
    elif node.origin and node.value not in (None, ""):
        yield describe(node.value), f"the value of {node.origin}"
        text = str(node.value)
        if len(text) >= _LONG_ENOUGH:
            yield text, node.origin
            yield shorten(text), node.origin
