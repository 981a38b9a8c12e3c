"""`source` and `target`: the client properties of the two clusters.

The maps take Java client names and librdkafka's own (see `client_properties`). `common` is inherited by the
other maps of its side. Values are never shown in a repr.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from k2k_assets.pipeline.values import Section, fault

PropertyValue = str | int | float | bool


def _properties(value: object) -> object:
    """Scalars only."""
    if not isinstance(value, dict):
        return value
    for key, item in value.items():
        if isinstance(item, dict):
            hint = 'Write property names flat and quoted: "bootstrap.servers": ...'
            fault("a text, a number, true or false", hint=hint, at=(key,))
        if isinstance(item, list):
            fault("a text, a number, true or false", hint="Separate several values by commas.", at=(key,))
    return value


Properties = Annotated[dict[str, PropertyValue], BeforeValidator(_properties)]


class SourceKafka(Section):
    """The source cluster's clients. It is only read."""

    common: Properties = Field(default={}, repr=False, description="Properties of all clients of the source.")
    consumer: Properties = Field(
        default={},
        repr=False,
        description='Properties of the reading clients. "group.id" is required here or in `common`: it names the '
        'progress; no consumer group is joined. "auto.offset.reset" says where a new partition starts: earliest '
        "(default), latest or none.",
    )
    admin: Properties = Field(default={}, repr=False, description="Properties of the admin client.")


class TargetKafka(Section):
    """The target cluster's clients."""

    common: Properties = Field(default={}, repr=False, description="Properties of all clients of the target.")
    consumer: Properties = Field(default={}, repr=False, description="Properties of the readers of control topics.")
    producer: Properties = Field(default={}, repr=False, description="Properties of the writing clients.")
    admin: Properties = Field(default={}, repr=False, description="Properties of the admin client.")


class SourceSection(Section):
    """The cluster that is copied from."""

    kafka: SourceKafka = Field(description="Client properties of the source cluster (required).")


class TargetSection(Section):
    """The cluster that is copied to."""

    kafka: TargetKafka = Field(description="Client properties of the target cluster (required).")
