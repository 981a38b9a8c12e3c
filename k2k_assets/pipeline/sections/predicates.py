"""Conditions on records, as `transform[].filter` has them: validated here, made into functions by `stages/transform`.

```yaml
any:
  - { header: country, in: [DE, AT] }
  - all:
      - { value: customer.country, equals: DE }
      - not: { key: $, matches: "test-.*" }
```

A condition is a test of one place, or conditions with `all`, `any` or `not`. A condition within a condition makes it no
section of its own, so that it is kept as the map that the file has.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NoReturn

from pydantic import BeforeValidator, WithJsonSchema

from k2k_assets.pipeline.parsing.problems import Path
from k2k_assets.pipeline.sections.regular_expression import ensure_expression
from k2k_assets.pipeline.sections.values import SCALAR_SCHEMA, fault

PLACES = ("header", "key", "value")
"""What a test, a mask or a drop is of."""

TESTS = ("equals", "in", "matches", "exists")
GROUPS = ("all", "any")

_ROOT = "$"
# What JSONPath, JSON Pointer and jq have besides would lead to no field.
_DOTTED = r"^(?!/|\$[^.]|(.*\.)?[0-9]+(\.|$))[^\[\]*]+$"
_ELEMENTS = (
    "A list on the way means each of its elements: write customers.email. A name of digits, with [, ] or * in it, or "
    'with $ or / before it, is an element of a list: ["a[0]", b].'
)
_DEEPEST = 20
_CONDITION = "a condition: a header, key or value with equals, in, matches or exists; or all, any, not"
PATH_SCHEMA: dict[str, Any] = {
    "anyOf": [{"type": "string", "pattern": _DOTTED}, {"type": "array", "minItems": 1, "items": {"type": "string"}}]
}
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "minProperties": 1,
    "properties": {
        "header": {"type": "string", "minLength": 1},
        "key": PATH_SCHEMA,
        "value": PATH_SCHEMA,
        "equals": SCALAR_SCHEMA,
        "in": {"type": "array", "items": SCALAR_SCHEMA, "minItems": 1},
        "matches": {"type": "string"},
        "exists": {"type": "boolean"},
        "all": {"type": "array", "items": {"type": "object"}, "minItems": 1},
        "any": {"type": "array", "items": {"type": "object"}, "minItems": 1},
        "not": {"type": "object"},
    },
}


def steps_of(path: str | tuple[str, ...] | list[str]) -> tuple[str, ...]:
    """The names that lead to a field: `customer.email`, `$.customer.email` and a list of names; none of `$`.

    A name with a dot in it needs the list, as do those that `ensure_path` refuses in a text.
    """
    if not isinstance(path, str):
        return tuple(path)
    if path == _ROOT:
        return ()
    return tuple(path.removeprefix(f"{_ROOT}.").split("."))


def ensure_path(found: object, at: Path = ()) -> None:
    """Refuses, from inside a validator, what is no path to a field."""
    hint = ""
    if isinstance(found, str | list | tuple) and found:
        if isinstance(found, str) and not re.search(_DOTTED, found):
            hint = _ELEMENTS
        elif all(isinstance(name, str) and name for name in steps_of(found)):
            return
    fault("a field such as customer.email, a list of names, or $ for all of it", hint=hint, at=at)


def ensure_condition(found: object, at: Path = ()) -> None:
    """Refuses, from inside a validator, what is no condition."""
    if not isinstance(found, Mapping) or not found:
        fault(_CONDITION, at=at)
    if len(at) > _DEEPEST:
        fault(f"at most {_DEEPEST} levels of conditions", at=at, shown=False)
    places = [name for name in PLACES if name in found]
    if places:
        _ensure_test(found, places, at)
        return
    if len(found) != 1:
        fault("one of all, any, not", at=at, hint="Put several conditions into all or any.")
    ((name, content),) = found.items()
    if name == "not":
        ensure_condition(content, (*at, name))
    elif name in GROUPS:
        if not isinstance(content, list | tuple) or not content:
            fault("a list of conditions", at=(*at, name))
        for number, each in enumerate(content):
            ensure_condition(each, (*at, name, number))
    elif name in TESTS:
        fault(f"header, key or value beside {name}", at=at)
    else:
        fault(_CONDITION, at=at)


def _ensure_test(found: Mapping[str, Any], places: list[str], at: Path) -> None:
    tests = [name for name in TESTS if name in found]
    if len(places) != 1 or len(tests) != 1 or len(found) != 2:
        _refuse_test(at)
    place, test = places[0], tests[0]
    if place == "header":
        if not isinstance(found[place], str) or not found[place]:
            fault("the name of a header", at=(*at, place))
    else:
        ensure_path(found[place], (*at, place))
    content = found[test]
    match test:
        case "exists":
            if not isinstance(content, bool):
                fault("true or false", at=(*at, test))
        case "matches":
            if not isinstance(content, str):
                fault("a regular expression", at=(*at, test))
            ensure_expression(content, of_contents=True)
        case "in":
            if not isinstance(content, list | tuple) or not content or not all(map(_is_scalar, content)):
                fault("a list of texts, finite numbers, true or false", at=(*at, test))
        case _:
            if not _is_scalar(content):
                fault("a text, a finite number, true or false", at=(*at, test))


def _refuse_test(at: Path) -> NoReturn:
    fault("one of header, key, value, and one of equals, in, matches, exists", at=at)


def _is_scalar(value: object) -> bool:
    # A number beyond all others, such as 1e9999, would equal all those of records.
    return isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


def texts_of(condition: object, at: Path) -> Iterator[Path]:
    """Paths of what a condition compares as text, with headers and with all of a key or value.

    Args:
        condition: It may be faulty.
        at: Its own path.
    """
    if not isinstance(condition, dict):
        return
    is_of_text = "header" in condition or _ROOT in (condition.get("key"), condition.get("value"))
    if is_of_text and "equals" in condition:
        yield (*at, "equals")
    for name in ("in", *GROUPS):
        contents = condition.get(name)
        for number, each in enumerate(contents if isinstance(contents, list) else ()):
            if name in GROUPS:
                yield from texts_of(each, (*at, name, number))
            elif is_of_text:
                yield (*at, name, number)
    yield from texts_of(condition.get("not"), (*at, "not"))


def _condition(value: object) -> object:
    ensure_condition(value)
    return value


def nest_conditions(schema: dict[str, Any], at: str) -> None:
    """Says in the JSON Schema of a condition that those within it are conditions, too.

    Args:
        schema: The schema of a condition.
        at: The address of the schema.
    """
    within = {"$ref": at}
    for group in GROUPS:
        schema["properties"][group]["items"] = within
    schema["properties"]["not"] = within


Condition = Annotated[dict[str, Any], BeforeValidator(_condition), WithJsonSchema(_SCHEMA)]
"""A condition on a record."""
