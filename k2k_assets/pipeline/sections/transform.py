"""`transform`: records that are left out or changed on their way."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from k2k_assets.functions.module_source import code_of, function_fault
from k2k_assets.pipeline.java_regex import compile_java
from k2k_assets.pipeline.parsing.problems import Path
from k2k_assets.pipeline.sections.predicates import PATH_SCHEMA, PLACES, Condition, ensure_path, texts_of
from k2k_assets.pipeline.sections.regular_expression import RegularExpression
from k2k_assets.pipeline.sections.values import SCALAR_SCHEMA, PositiveDuration, Section, TopicName, fault, scalar_text

OnError = Literal["stop", "deadLetter", "drop", "keep"]
MaskWith = Literal["text", "sha256"]


def _path(value: object) -> object:
    ensure_path(value)
    return value


def _replacement(value: object) -> object:
    return scalar_text(value, ())


FieldPath = Annotated[str | tuple[str, ...], BeforeValidator(_path), WithJsonSchema(PATH_SCHEMA)]
"""Where a field lies in a JSON value: `customer.email`, a list of names, or `$` for all of it."""


class _FilledSection(Section):
    """A section of which no key is left empty: whoever does so has forgotten what is to be left out or hidden."""

    @model_validator(mode="before")
    @classmethod
    def _has_no_empty_key(cls, found: object) -> object:
        for key, value in found.items() if isinstance(found, dict) else ():
            if value is None:
                fault("a value", at=(key,))
        return found


class RecordPart(_FilledSection):
    """One part of a record: a header, or the key, the value or a field of these."""

    header: str | None = Field(default=None, min_length=1, description="A header, by its name; all that have it.")
    key: FieldPath | None = Field(default=None, description="A field of the key, which is JSON; `$`: all of the key.")
    value: FieldPath | None = Field(
        default=None, description="A field of the value, which is JSON; `$`: all of the value."
    )

    @model_validator(mode="after")
    def _names_one(self) -> RecordPart:
        if sum(getattr(self, name) is not None for name in PLACES) != 1:
            fault("one of header, key, value", shown=False)
        return self


class Mask(RecordPart):
    """A part that is replaced, where it is there and not null."""

    with_: Annotated[str, BeforeValidator(_replacement), WithJsonSchema(SCALAR_SCHEMA)] | None = Field(
        default=None, alias="with", description="The text that replaces it."
    )
    hash: Literal["sha256"] | None = Field(
        default=None,
        description="Replaces it by its SHA-256 in hex digits: the same content stays the same. Whoever can guess the "
        "content can verify the guess.",
    )

    @model_validator(mode="after")
    def _has_one_way(self) -> Mask:
        if (self.with_ is None) == (self.hash is None):
            fault("one of with, hash", shown=False)
        return self


class Drop(RecordPart):
    """A part that is taken out; all of a key or value becomes null."""


class TransformRule(_FilledSection):
    """What happens to the records of some topics."""

    pattern: RegularExpression = Field(
        description="Topics: a regular expression for whole names of source topics (required). All rules that match a "
        "topic apply, one after the other."
    )
    filter: Condition | None = Field(
        default=None, description="A condition: records for which it does not hold are left out."
    )
    mask: tuple[Mask, ...] = Field(default=(), description="Parts that are replaced.")
    drop: tuple[Drop, ...] = Field(default=(), description="Parts that are taken out.")
    python: str | None = Field(
        default=None,
        description="A function of yours, `module:function`: it gets records as an Arrow record batch, and returns "
        "those that are copied.",
    )
    function_timeout: PositiveDuration = Field(
        default=timedelta(minutes=5),
        description="Longest time that the function may take for a batch, which has up to 1000 records. Then it is "
        "ended, and the topic is stopped.",
    )
    on_error: OnError = Field(
        default="stop",
        description="What happens to a record for which the rule fails, such as one that is not JSON: `stop` its "
        "topic; `deadLetter`, write it to `deadLetters` as it was; `drop` it; `keep` it as it was, in rules with a "
        "filter alone.",
    )
    dead_letters: TopicName | None = Field(
        default=None, description="Topic on the target for records with `onError: deadLetter`."
    )

    @model_validator(mode="after")
    def _fits_together(self) -> TransformRule:
        if not (self.filter or self.mask or self.drop or self.python):
            fault("at least one of filter, mask, drop, python", shown=False)
        if (self.on_error == "deadLetter") != (self.dead_letters is not None):
            fault("onError: deadLetter, and the name of a topic in deadLetters, or neither", shown=False)
        if self.on_error == "keep" and (self.mask or self.drop or self.python):
            hint = "The record would be copied with what the rule was to hide."
            fault("another onError than keep, where records are changed", hint=hint, shown=False)
        if self.python is not None and self.python.count(":") != 1:
            fault("module:function", at=("python",))
        if self.python is None and "function_timeout" in self.model_fields_set:
            fault("functionTimeout beside python, or neither", shown=False)
        return self

    def document(self, folders: Sequence[str]) -> dict[str, Any]:
        """As a JSON document, with a digest of the code of its function; the same on every machine.

        Args:
            folders: Where modules are looked for, beside Python's own path.

        Raises:
            Refused: The module of the function cannot be found.
        """
        # What has its default is left out, so that a new key changes no older document.
        # How long a function may take is no matter of what it makes of records.
        document: dict[str, Any] = self.model_dump(
            mode="json", by_alias=True, exclude_defaults=True, exclude={"function_timeout"}
        )
        if self.python is not None:
            document["code"] = code_of(self.python, folders)
        return document


def transform_text(rules: Iterable[TransformRule], folders: Sequence[str]) -> str:
    """Rules as one JSON text, with the digest of the code of their functions; empty if there are none.

    Raises:
        Refused: The module of a function cannot be found.
    """
    documents = [rule.document(folders) for rule in rules]
    return json.dumps(documents, sort_keys=True, separators=(",", ":"), ensure_ascii=False) if documents else ""


def texts_of_rules(rules: object) -> Iterator[Path]:
    """Paths in a document of what rules, which may be faulty, take for text, be it written as a number or not."""
    for position, rule in enumerate(rules if isinstance(rules, list) else ()):
        if isinstance(rule, dict):
            at = ("transform", position)
            yield from texts_of(rule.get("filter"), (*at, "filter"))
            masks = rule.get("mask")
            for number, mask in enumerate(masks if isinstance(masks, list) else ()):
                if isinstance(mask, dict) and "with" in mask:
                    yield (*at, "mask", number, "with")


def rules_match(rules: Iterable[TransformRule], topic: str) -> bool:
    """Whether any rule is for a source topic."""
    return any(compile_java(rule.pattern).matches(topic) for rule in rules)


def folders_of(files: Iterable[FilePath]) -> tuple[str, ...]:
    """The folders of a pipeline's files, in which modules with functions may lie."""
    return tuple(dict.fromkeys(str(file.parent) for file in files))


def functions_faults(rules: Sequence[TransformRule], folders: Sequence[str]) -> Iterable[tuple[int, str]]:
    """Position of each rule whose function cannot be loaded, as the text of its module says, and why."""
    for position, rule in enumerate(rules):
        if rule.python is not None and (why := function_fault(rule.python, folders)):
            yield position, why
