"""Turns pydantic's errors into problems of the file, and lists the keys that the models have at a path."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from k2k_assets.pipeline.parsing.document import Node
from k2k_assets.pipeline.parsing.known_keys import sibling_keys
from k2k_assets.pipeline.parsing.problems import MAX_HINTS, Path, Problem, describe, nearest

MAPPER_ALONE = ("groups", "offsetMapping")
"""A file only for the offset mapper has at least one of these sections."""

_EXPECTED = {
    "model_type": "a mapping",
    "dict_type": "a mapping",
    "string_type": "a text",
    "string_too_short": "a text that is not empty",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "greater_than_equal": "a number of at least {ge}",
    "less_than_equal": "a number of at most {le}",
    "literal_error": "{expected}",
}


def problems_of(error: ValidationError, root: Node, model: type[BaseModel], section: Path = ()) -> list[Problem]:
    """All problems that pydantic found below `section` of a document whose root model is `model`."""
    items = error.errors(include_url=False)
    return [_problem(item, root, model, section, hint=at < MAX_HINTS) for at, item in enumerate(items)]


def problem_at(root: Node, path: Path, message: str) -> Problem:
    """A problem at a path, with file, line and column of its node or its nearest ancestor."""
    node = root.at(path)
    return Problem(node.file, node.line, node.column, path, message)


def _problem(item: Mapping[str, Any], root: Node, model: type[BaseModel], section: Path, *, hint: bool) -> Problem:
    path: Path = (*section, *item["loc"])
    kind, context, found = item["type"], item.get("ctx", {}), item["input"]
    if kind == "missing":
        return problem_at(root, path, f"expected this key, found nothing{_for_the_mapper(path, root)}")
    if kind == "extra_forbidden":
        return problem_at(root, path, unknown_key(path, model) if hint else "unknown key")
    if kind == "k2k":
        path = (*path, *context["at"])
        for part in context["at"]:
            found = found[part]
        message = f"expected {context['expected']}"
        if context["shown"]:
            message += f", found {describe(found, path)}"
        if context["hint"]:
            message += f". {context['hint']}"
        return problem_at(root, path, message)
    expected = _EXPECTED.get(kind, item["msg"]).format(**context)
    message = f"expected {expected}, found {describe(found, path)}"
    if kind == "string_type" and isinstance(found, bool | int | float):
        message += ". Put it in quotes."
    return problem_at(root, path, message)


def _for_the_mapper(path: Path, root: Node) -> str:
    """Advice for a file that is only for the offset mapper and copies nothing."""
    if path != ("replication",) or not is_for_mapper_alone(root):
        return ""
    return ". A file for the offset mapper alone has none: `k2k-offset-mapping validate` checks such a file"


def is_for_mapper_alone(root: Node) -> bool:
    """Whether a document is only for the offset mapper: it has groups or mappings, and copies nothing."""
    keys = root.value if isinstance(root.value, dict) else {}
    return "replication" not in keys and any(section in keys for section in MAPPER_ALONE)


def unknown_key(path: Path, model: type[BaseModel]) -> str:
    """The message for an unknown key, which suggests the nearest key of the section or the right section."""
    key = str(path[-1])
    known = keys_at(model, path[:-1]) | sibling_keys(path[:-1])
    if close := nearest(key, known):
        return f"unknown key; did you mean {close}?"
    elsewhere = [place for place in _all_keys(model) if place.rpartition(".")[2].lower() == key.lower()]
    if elsewhere:
        return f"unknown key here; did you mean {elsewhere[0]}?"
    return f"unknown key; expected one of {', '.join(sorted(known))}" if known else "unknown key"


def keys_at(model: type[BaseModel], path: Path) -> set[str]:
    """The YAML keys that the models have at a path; empty where there is no section."""
    here: type[BaseModel] | None = model
    for part in path:
        if isinstance(part, int):
            continue
        field = next((f for f in here.model_fields.values() if f.alias == part), None) if here else None
        here = section_of(field.annotation) if field else None
    return {str(field.alias) for field in here.model_fields.values()} if here else set()


def section_of(annotation: object) -> type[BaseModel] | None:
    """The section model in an annotation such as `X | None` or `tuple[X, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in typing.get_args(annotation):
        if found := section_of(argument):
            return found
    return None


def _all_keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for field in model.model_fields.values():
        yield f"{prefix}{field.alias}"
        if inner := section_of(field.annotation):
            yield from _all_keys(inner, f"{prefix}{field.alias}.")
