"""`source` and `target`: the client properties of the two clusters.

The maps accept Java client names and librdkafka's own (see `client_properties`). The other maps of a side inherit from
its `common`. A repr never shows values.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from k2k_assets.pipeline.clients.java_properties import NoEffect, rule_of
from k2k_assets.pipeline.sections.schema_mapping import RegistrySection
from k2k_assets.pipeline.sections.values import SCALAR_SCHEMA, Section, fault

_LIST: dict[str, Any] = {"type": "array", "items": {"type": ["string", "number", "boolean"]}}

PropertyValue = str | int | float | bool


def _properties(value: object) -> object:
    """Accepts scalars, and lists for properties that have no effect, as K2K does."""
    if not isinstance(value, dict):
        return value
    value = {key: _joined(key, item) for key, item in value.items()}
    for key, item in value.items():
        if isinstance(item, dict):
            hint = 'Write property names flat and quoted: "bootstrap.servers": ...'
            fault("a text, a number, true or false", hint=hint, at=(key,))
        if isinstance(item, list):
            fault("a text, a number, true or false", hint="Separate several values by commas.", at=(key,))
    return value


def _joined(key: str, value: object) -> object:
    if not isinstance(value, list) or not isinstance(rule_of(key), NoEffect):
        return value
    return ",".join(map(str, value)) if all(isinstance(item, str | int | float) for item in value) else value


Properties = Annotated[
    dict[str, PropertyValue],
    BeforeValidator(_properties),
    WithJsonSchema({"type": "object", "additionalProperties": {"anyOf": [SCALAR_SCHEMA, _LIST]}}),
]


class SourceKafka(Section):
    """The source cluster's clients. It is only read."""

    common: Properties = Field(default={}, repr=False, description="Properties of all clients of the source.")
    consumer: Properties = Field(
        default={},
        repr=False,
        description='Properties of consumers. "group.id" is required here or in `common`: it names the progress; no '
        'consumer group is joined. "auto.offset.reset" says where a new partition starts: earliest (default), latest '
        "or none.",
    )
    admin: Properties = Field(default={}, repr=False, description="Properties of the admin client.")


class TargetKafka(Section):
    """The target cluster's clients."""

    common: Properties = Field(default={}, repr=False, description="Properties of all clients of the target.")
    consumer: Properties = Field(default={}, repr=False, description="Properties of the readers of control topics.")
    producer: Properties = Field(default={}, repr=False, description="Properties of producers.")
    admin: Properties = Field(default={}, repr=False, description="Properties of the admin client.")
    topic_props_exclusion_list: tuple[str, ...] = Field(
        default=(), description="Topic configs that are not copied from the source."
    )


class SourceSection(Section):
    """The cluster that is copied from."""

    kafka: SourceKafka = Field(description="Client properties of the source cluster (required).")
    registry: RegistrySection | None = Field(default=None, description="The source's schema registry.")


class TargetSection(Section):
    """The cluster that is copied to."""

    kafka: TargetKafka = Field(description="Client properties of the target cluster (required).")
    registry: RegistrySection | None = Field(default=None, description="The target's schema registry.")
