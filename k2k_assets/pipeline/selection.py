"""`replication[].source`: which topics are copied."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from k2k_assets.pipeline.java_regex import RegexError, compile_java
from k2k_assets.pipeline.values import Section, fault, topic_name_fault


def _topic(value: object) -> object:
    if isinstance(value, str):
        try:
            compile_java(value)
        except RegexError as error:
            fault(f"a regular expression ({error})")
        return value
    if not isinstance(value, list | tuple) or not value:
        fault("one regular expression, or a list of topic names")
    for position, name in enumerate(value):
        if not isinstance(name, str):
            fault("a topic name", at=(position,))
        if why := topic_name_fault(name):
            hint = "A list holds literal names; write one regular expression without a list for a pattern."
            fault(why, hint=hint, at=(position,))
    return tuple(dict.fromkeys(value))


class TopicSelection(Section):
    """The topics to copy: all that match one Java regex as a whole, or a list of names."""

    name: str | None = Field(default=None, description="A name for the stage; not used.")
    topic: Annotated[str | tuple[str, ...], BeforeValidator(_topic)] = Field(
        description="One regular expression (Java's, matched against the whole name) or a list of literal names "
        "(required).",
    )

    @property
    def pattern(self) -> str | None:
        """The regular expression, or None for a list."""
        return self.topic if isinstance(self.topic, str) else None

    @property
    def literal(self) -> tuple[str, ...] | None:
        """The listed names in file order without duplicates, or None for a pattern."""
        return None if isinstance(self.topic, str) else self.topic

    def matches(self, topic: str) -> bool:
        """Whether a source topic is selected."""
        if isinstance(self.topic, str):
            return compile_java(self.topic).matches(topic)
        return topic in self.topic

    def describe(self) -> str:
        """The selection in words, for messages."""
        if isinstance(self.topic, str):
            return f"topics that match '{self.topic}'"
        return "the topic" + "s" * (len(self.topic) > 1) + " " + ", ".join(self.topic)
