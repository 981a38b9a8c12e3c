"""`replication[].source`: which topics are copied."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from k2k_assets.pipeline.java_regex import compile_java
from k2k_assets.pipeline.sections.regular_expression import ensure_expression
from k2k_assets.pipeline.sections.start import Start
from k2k_assets.pipeline.sections.values import Flag, Section, fault, topic_name_fault

_INTERNAL = re.compile(
    r"__.*"  # Kafka's own, and those of Kafka's tools
    r"|_schemas"  # of schema registries
    r"|.*[.-]internal"  # MirrorMaker 2: offset-syncs, checkpoints
    r"|mm2-.*"  # MirrorMaker 2 as Connect: configs, offsets, status
    r"|(.*\.)?heartbeats"  # MirrorMaker 2's heartbeats, and copies of them
)

INTERNAL_NAMES = "`__*`, `_schemas`, `*.internal`, `*-internal`, `mm2-*`, `heartbeats`, `*.heartbeats`"
"""The names of internal topics, for documentation."""


def is_internal(topic: str) -> bool:
    """Whether a topic is internal to Kafka or to one of its tools."""
    return _INTERNAL.fullmatch(topic) is not None


def _topics(value: object) -> object:
    if isinstance(value, str):
        ensure_expression(value)
        return value
    if not isinstance(value, list | tuple) or not value:
        fault("one regular expression, or a list of topic names")
    first: dict[str, int] = {}
    for position, name in enumerate(value):
        if not isinstance(name, str):
            fault("a topic name", at=(position,))
        if why := topic_name_fault(name):
            hint = "A list holds literal names; write one regular expression without a list for a pattern."
            fault(why, hint=hint, at=(position,))
        if first.setdefault(name, position) != position:
            fault("each topic once", hint="It stands in the list before.", at=(position,))
    return tuple(value)


Topics = Annotated[str | tuple[str, ...], BeforeValidator(_topics)]
"""One regular expression, or names."""


class TopicSelection(Section):
    """The topics to copy: all that match one Java regex as a whole, or a list of names."""

    name: str | None = Field(default=None, description="A name for the stage; not used.")
    topic: Topics = Field(
        description="One regular expression (Java's, matched against the whole name) or a list of literal names "
        "(required).",
    )
    exclude: Topics | None = Field(
        default=None,
        description="Selected topics that are not copied: one regular expression, or a list of names. Our own.",
    )
    internal_topics: Flag = Field(
        default=False,
        description=f"Whether a regular expression also selects internal topics ({INTERNAL_NAMES}). A list selects "
        "those that it names. An expression never selects Kafka's own topics and our control topics. Our own.",
    )

    start: Start | None = Field(
        default=None,
        description="Where a partition without a committed position begins: `earliest`, `latest`, a time "
        "(`2026-01-31T12:00:00Z`, or milliseconds since the epoch, from 2000 on: the first record that is not older), "
        "or offsets: `{ orders: { 0: 1200, 1: 1180 } }`; a partition that is not in the map begins at its log start. "
        "One that is added to a topic after copying began does so too, but where the map has it. It overrides "
        "`auto.offset.reset`. Earlier records are not copied, and consumer groups whose position lies before it are "
        "not moved. Our own.",
    )

    @model_validator(mode="after")
    def _starts_what_is_selected(self) -> TopicSelection:
        for topic in self.start if isinstance(self.start, dict) else ():
            if not self.with_internal_topics().matches(topic):
                fault("a topic that is selected", at=("start", topic), shown=False)
        return self

    @model_validator(mode="after")
    def _excludes_nothing_that_is_listed(self) -> TopicSelection:
        for position, name in enumerate(self.literal or ()):
            if self._is_excluded(name):
                fault("a topic that is not in `exclude`", at=("topic", position))
        return self

    @property
    def parts(self) -> tuple[TopicSelection, ...]:
        """The selection of each pair of stages, each with one expression or list."""
        return (self,)

    @property
    def pattern(self) -> str | None:
        """The regular expression, or None for a list."""
        return self.topic if isinstance(self.topic, str) else None

    @property
    def literal(self) -> tuple[str, ...] | None:
        """The listed names in file order, or None for a pattern."""
        return None if isinstance(self.topic, str) else self.topic

    def matches(self, topic: str) -> bool:
        """Whether a source topic is selected."""
        if not isinstance(self.topic, str):
            return topic in self.topic
        if not compile_java(self.topic).matches(topic) or self._is_excluded(topic):
            return False
        return self.internal_topics or not is_internal(topic)

    def with_internal_topics(self) -> TopicSelection:
        """The same selection, which includes internal topics."""
        return self.model_copy(update={"internal_topics": True})

    def identity(self) -> object:
        """Everything that decides which topics are selected, as JSON values."""
        if self.exclude is None and not self.internal_topics:
            return self.topic
        return [self.topic, self.exclude, self.internal_topics]

    def describe(self) -> str:
        """A description of the selection, for messages."""
        if not isinstance(self.topic, str):
            return "the topic" + "s" * (len(self.topic) > 1) + " " + ", ".join(self.topic)
        if self.exclude is None:
            return f"topics that match '{self.topic}'"
        but = f"those that match '{self.exclude}'" if isinstance(self.exclude, str) else ", ".join(self.exclude)
        return f"topics that match '{self.topic}', but not {but}"

    def _is_excluded(self, topic: str) -> bool:
        if isinstance(self.exclude, str):
            return compile_java(self.exclude).matches(topic)
        return self.exclude is not None and topic in self.exclude
