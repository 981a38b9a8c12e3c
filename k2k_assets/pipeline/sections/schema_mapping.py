"""`schemaMapping` and `*.registry`: replaces schema ids by those of the target registry."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Literal, NamedTuple

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from k2k_assets.pipeline.java_regex import compile_java
from k2k_assets.pipeline.sections.regular_expression import RegularExpression
from k2k_assets.pipeline.sections.values import Count, Section, TextMap, fault, flag

SchemaType = Literal["AVRO", "JSON", "PROTOBUF", "YANG"]
Facet = Literal["key", "value"]
"""A part of a record that a schema may describe."""
WithoutId = Literal["untouched", "refused"]
"""What becomes of a key or value without a schema id."""
_AUTO: Literal["auto"] = "auto"


def _schema_flag(value: object) -> object:
    return _AUTO if value == _AUTO else flag(value)


SchemaFlag = Annotated[
    bool | Literal["auto"],
    BeforeValidator(_schema_flag),
    WithJsonSchema({"enum": ["enabled", "disabled", _AUTO]}),
]
"""Whether some keys or values have a schema; `auto`: what their ids say, as without rules."""


class FacetRule(NamedTuple):
    """Which facets of the records of some topics have schema ids.

    Attributes:
        pattern: A Java regular expression for whole names of source topics.
        key: Whether keys have schema ids.
        value: Whether values have schema ids.
    """

    pattern: str
    key: bool
    value: bool


class RefusedPayloads(NamedTuple):
    """Which keys and values without a schema id stop their topic, of those that have schemas.

    Attributes:
        unframed: Those that do not begin with a schema id.
        nulls: Null.
    """

    unframed: bool = False
    nulls: bool = False


def facets_word(facets: Collection[Facet]) -> str:
    """Facets as one word, for columns: `key value`."""
    return " ".join(sorted(facets))


ALL_FACETS = (FacetRule(".*", True, True),)
"""The rules of a pipeline whose file has none."""


def facets_of(rules: tuple[FacetRule, ...], topic: str) -> frozenset[Facet]:
    """Facets with schema ids in the records of a source topic; the first rule that matches counts."""
    rule = next((rule for rule in rules if compile_java(rule.pattern).matches(topic)), None)
    facets: Mapping[Facet, bool] = {"key": rule.key, "value": rule.value} if rule else {}
    return frozenset(facet for facet, has in facets.items() if has)


class RegistrySection(Section):
    """A schema registry."""

    config: TextMap = Field(
        default={},
        repr=False,
        description="Settings of the registry's client, such as `schema.registry.url` and credentials.",
    )
    headers: TextMap = Field(default={}, repr=False, description="HTTP headers of every request.")
    cache_size: Count = Field(default=31, description="No effect: all schemas that were asked for are kept.")


class SchemaRule(Section):
    """Which facets of some topics' records have a schema."""

    pattern: RegularExpression = Field(description="Topics: a regular expression for whole names (required).")
    key: SchemaFlag = Field(
        default=False,
        description="Whether their keys have a schema. `auto`, as without rules: those have one that begin with an id "
        "which the source's registry has for them; an id of other topics only stops the topic.",
    )
    value: SchemaFlag = Field(default=False, description="Whether their values have a schema, likewise.")
    unframed: WithoutId = Field(
        default="untouched",
        description="What does not begin with a schema id, of keys or values that have a schema: it is copied "
        "`untouched`, or `refused`, which stops its topic there.",
    )
    nulls: WithoutId = Field(
        default="untouched",
        description="Null, likewise. Null values delete: of a compacted topic they belong there.",
    )

    @model_validator(mode="after")
    def _refuses_something(self) -> SchemaRule:
        for name in ("unframed", "nulls"):
            if getattr(self, name) == "refused" and not (self.key or self.value):
                hint = "It is refused where a schema is expected, and this rule expects none."
                fault("key or value enabled, or untouched", hint=hint, at=(name,))
        return self

    @property
    def refusals(self) -> RefusedPayloads:
        """What it refuses."""
        return RefusedPayloads(self.unframed == "refused", self.nulls == "refused")


class SchemaMapping(Section):
    """Which records have schemas. Without rules: keys and values of all topics."""

    supported_types: tuple[SchemaType, ...] = Field(
        default=("AVRO", "JSON", "PROTOBUF", "YANG"), description="Types of schemas."
    )
    topics: tuple[SchemaRule, ...] = Field(default=(), description="Rules; the first that matches a topic counts.")

    @property
    def rules(self) -> tuple[FacetRule, ...]:
        """The file's rules, or all facets of all topics."""
        found = tuple(FacetRule(rule.pattern, bool(rule.key), bool(rule.value)) for rule in self.topics)
        return found or ALL_FACETS

    def is_certain(self, topic: str, facet: Facet) -> bool:
        """Whether a rule says that the keys, or values, of a source topic have schemas."""
        rule = self._rule_of(topic)
        return rule is not None and (rule.key if facet == "key" else rule.value) is True

    def refusals(self, topic: str) -> RefusedPayloads:
        """What stops a source topic for want of a schema id."""
        rule = self._rule_of(topic)
        return rule.refusals if rule else RefusedPayloads()

    def _rule_of(self, topic: str) -> SchemaRule | None:
        """The first one that matches counts."""
        return next((rule for rule in self.topics if compile_java(rule.pattern).matches(topic)), None)
