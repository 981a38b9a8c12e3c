"""`replication[].sink`: the target topic and partition of each record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from k2k_assets.core.errors import Refused
from k2k_assets.pipeline.java_regex import RegexError, compile_java
from k2k_assets.pipeline.sections.values import Section, fault, topic_name_fault

_FORMS = "source, {prefix, suffix}, {static} or {staticMapping}"


class SinkTopic(Section):
    """The name of a target topic. At most one of the three ways is set; without any, it is the source topic's name."""

    prefix: str = Field(default="", description="Added before the source topic's name.")
    suffix: str = Field(default="", description="Added after the source topic's name.")
    static: str | None = Field(default=None, description="All records go to this topic.")
    static_mapping: tuple[tuple[str, str], ...] | None = Field(
        default=None,
        description="Source topic to target topic. Keys are names or regular expressions: the exact name counts first, "
        "then the first expression, in file order, that matches the whole name.",
    )

    def target(self, source_topic: str) -> str | None:
        """The target topic's name, or None when the mapping has no entry."""
        if self.static is not None:
            return self.static
        if self.static_mapping is not None:
            return _mapped(self.static_mapping, source_topic)
        return f"{self.prefix}{source_topic}{self.suffix}"


def _mapped(entries: tuple[tuple[str, str], ...], topic: str) -> str | None:
    for key, target in entries:
        if key == topic:
            return target
    for key, target in entries:
        if compile_java(key).matches(topic):
            return target
    return None


def _sink_topic(value: object) -> object:
    if isinstance(value, SinkTopic):
        return value
    if value == "source":
        return SinkTopic()
    if not isinstance(value, Mapping) or not value:
        fault(_FORMS, hint=_about_templates(value))
    forms = {"affix" if key in ("prefix", "suffix") else key for key in value}
    unknown = forms - {"affix", "static", "staticMapping"}
    if unknown:
        fault(_FORMS, at=(sorted(unknown)[0],), shown=False)
    if len(forms) > 1:
        fault(f"one of {_FORMS}, not several", shown=False)
    if "staticMapping" in value:
        return SinkTopic(static_mapping=_entries(value["staticMapping"]))
    for key, text in value.items():
        # A part of a name must be legal as a name, but "." is a legal prefix.
        if not isinstance(text, str) or not text:
            fault("a text that is not empty", at=(key,))
        if why := topic_name_fault(text if key == "static" else f"{text}x"):
            fault(why, hint=_about_templates(text), at=(key,))
    return SinkTopic(**value)


def _about_templates(value: object) -> str:
    if isinstance(value, str) and "$" in value:
        return (
            "Templates such as $1 are not supported. Use prefix or suffix for all topics, or staticMapping for each "
            "topic."
        )
    return ""


def _entries(value: object) -> tuple[tuple[str, str], ...]:
    """The mapping's entries in file order, from a map or from a list of maps."""
    placed: list[tuple[tuple[str | int, ...], str, object]] = []
    if isinstance(value, Mapping):
        placed = [(("staticMapping", key), key, target) for key, target in value.items()]
    elif isinstance(value, list):
        for position, item in enumerate(value):
            if not isinstance(item, Mapping):
                fault("a mapping of source topic to target topic", at=("staticMapping", position))
            placed += [(("staticMapping", position, key), key, target) for key, target in item.items()]
    if not placed:
        fault("a mapping of source topics to target topics", at=("staticMapping",))
    for at, key, target in placed:
        try:
            compile_java(key)
        except RegexError as error:
            fault(f"a topic name or a regular expression as the key ({error})", at=at, shown=False)
        if not isinstance(target, str):
            fault("a topic name", at=at)
        if why := topic_name_fault(target):
            fault(why, hint=_about_templates(target), at=at)
    return tuple((key, str(target)) for _, key, target in placed)


_NAME: dict[str, Any] = {"type": "string", "minLength": 1}


def _form(required: tuple[str, ...], **keys: dict[str, Any]) -> dict[str, Any]:
    """One way to write a target topic, in JSON Schema."""
    described = {
        key: {"description": SinkTopic.model_fields[_FIELDS.get(key, key)].description, **of}
        for key, of in keys.items()
    }
    whole = {"type": "object", "additionalProperties": False, "properties": described}
    return {**whole, "required": list(required)} if required else {**whole, "minProperties": 1}


_FIELDS = {"staticMapping": "static_mapping"}
_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"const": "source"},
        _form((), prefix=_NAME, suffix=_NAME),
        _form(("static",), static=_NAME),
        _form(("staticMapping",), staticMapping={"type": "object", "minProperties": 1, "additionalProperties": _NAME}),
    ]
}


class Routing(Section):
    """Where records go."""

    name: str | None = Field(default=None, description="A name for the stage; not used.")
    topic: Annotated[SinkTopic, BeforeValidator(_sink_topic), WithJsonSchema(_SCHEMA)] = Field(
        description=f"The target topic: {_FORMS} (required)."
    )
    partition: Literal["source", "producer"] = Field(
        description="`source`: the source partition's number; the target topic needs as many partitions. `producer`: "
        "where a Java producer would put the key (required)."
    )

    def target_topic(self, source_topic: str) -> str:
        """The target topic of a source topic.

        Raises:
            Refused: `staticMapping` has no entry for it, or its target name would not be legal.
        """
        target = self.topic.target(source_topic)
        if target is None:
            raise Refused(
                f"replication.sink.topic.staticMapping has no entry for the selected topic '{source_topic}'; "
                "add one, or select fewer topics"
            )
        if why := topic_name_fault(target):
            raise Refused(f"topic '{source_topic}' would be copied to '{target}', which is not {why}")
        return target

    def keeps_partition(self, source_topic: str) -> bool:
        """Whether records of a source topic keep their partition's number."""
        return self.partition == "source"

    @property
    def keeps_partitions(self) -> bool:
        """Whether the records of all topics keep their partition's number."""
        return self.partition == "source"

    def target_if_any(self, source_topic: str) -> str | None:
        """The target topic of a source topic; None where `target_topic` refuses."""
        try:
            return self.target_topic(source_topic)
        except Refused:
            return None
