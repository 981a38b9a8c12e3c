"""Conditions as functions of a batch and an index.

A comparison holds for a field, header, key or value that is there and equal. Of several headers of one name the last
one counts, as for Kafka's `lastHeader`; of several fields, because lists lie on the way, one is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from k2k_assets.core.errors import Refused
from k2k_assets.pipeline.java_regex import compile_java
from k2k_assets.pipeline.sections.predicates import GROUPS, PLACES, steps_of
from k2k_assets.pipeline.sections.schema_mapping import Facet
from k2k_assets.pipeline.sections.values import scalar_text
from k2k_assets.stages.transform.batch import Batch
from k2k_assets.stages.transform.documents import Number, value_of
from k2k_assets.stages.transform.fields import Steps, found

Holds = Callable[[Batch, int], bool]
"""Whether a condition holds for the record at an index.

Raises:
    RecordFault: It cannot be told.
    MatchTimedOut: It cannot be told in time.
"""

Scalar = str | int | float | bool


class MatchTimedOut(Exception):
    """A regular expression, which is the message, takes too long. Whether it does is a matter of the machine too."""


def compile_condition(condition: Mapping[str, Any]) -> Holds:
    """Makes the function of a condition that `pipeline.predicates` has accepted."""
    for group in GROUPS:
        if group in condition:
            parts = [compile_condition(each) for each in condition[group]]
            return partial(_all if group == "all" else _any, parts)
    if "not" in condition:
        return partial(_not, compile_condition(condition["not"]))
    place = next(name for name in PLACES if name in condition)
    if place == "header":
        return partial(_header, condition[place], _test_of_text(condition))
    steps = steps_of(condition[place])
    facet: Facet = "key" if place == "key" else "value"
    if not steps:
        return partial(_whole, facet, _test_of_text(condition))
    return partial(_field, facet, steps, _test_of_content(condition))


def _all(parts: Iterable[Holds], batch: Batch, index: int) -> bool:
    return all(part(batch, index) for part in parts)


def _any(parts: Iterable[Holds], batch: Batch, index: int) -> bool:
    return any(part(batch, index) for part in parts)


def _not(part: Holds, batch: Batch, index: int) -> bool:
    return not part(batch, index)


def _header(name: str, test: Callable[[bytes | None], bool], batch: Batch, index: int) -> bool:
    last = None
    for each, value in batch.headers[index] or ():
        if each == name:
            last = value
    return test(last)


def _whole(facet: Facet, test: Callable[[bytes | None], bool], batch: Batch, index: int) -> bool:
    return test(batch.written_payload(index, facet))


def _field(facet: Facet, steps: Steps, test: Callable[[Sequence[Any]], bool], batch: Batch, index: int) -> bool:
    document = batch.document(index, facet)
    return test(found(document.content, steps) if document else ())


def _test_of_text(condition: Mapping[str, Any]) -> Callable[[bytes | None], bool]:
    """The test of a header, or of all of a key or value: text in UTF-8."""
    if "exists" in condition:
        wanted: bool = condition["exists"]
        return lambda payload: (payload is not None) is wanted
    if "matches" in condition:
        return partial(_text_matches, _matcher(condition["matches"]))
    scalars = condition["in"] if "in" in condition else [condition["equals"]]
    return frozenset(scalar_text(scalar, ()).encode() for scalar in scalars).__contains__


def _test_of_content(condition: Mapping[str, Any]) -> Callable[[Sequence[Any]], bool]:
    """The test of fields of JSON: a number equals a number, a text a text."""
    if "exists" in condition:
        wanted: bool = condition["exists"]
        return lambda fields: any(each is not None for each in fields) is wanted
    if "matches" in condition:
        matches = _matcher(condition["matches"])
        return lambda fields: any(isinstance(each, str) and matches(each) for each in fields)
    scalars = condition["in"] if "in" in condition else [condition["equals"]]
    return partial(_any_is_in, frozenset(map(_comparable, scalars)))


def _any_is_in(wanted: frozenset[tuple[str, Scalar]], fields: Sequence[Any]) -> bool:
    return any(isinstance(each, str | int | float | Number) and _comparable(each) in wanted for each in fields)


def _comparable(scalar: Any) -> tuple[str, Scalar]:
    """A scalar that equals others of its kind only: Python takes true for 1."""
    if isinstance(scalar, Number):
        return "number", value_of(scalar)
    if isinstance(scalar, bool):
        return "truth", scalar
    return ("text" if isinstance(scalar, str) else "number"), scalar


def _text_matches(matches: Callable[[str], bool], payload: bytes | None) -> bool:
    if payload is None:
        return False
    try:
        return matches(payload.decode())
    except UnicodeDecodeError:
        return False


def _matcher(pattern: str) -> Callable[[str], bool]:
    compiled = compile_java(pattern, of_contents=True)

    def matches(text: str) -> bool:
        try:
            return compiled.matches(text)
        except Refused:
            raise MatchTimedOut(pattern) from None

    return matches
