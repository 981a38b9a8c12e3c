"""`tracing`, and its flags: headers that say where a record came from."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from k2k_assets.pipeline.sections.added_headers import AddedHeader, AddedHeaders
from k2k_assets.pipeline.sections.values import Flag, Section, fault


class TracingFlags(Section):
    """Which tracing headers records get."""

    partition: Flag = Field(default=False, description="The source partition.")
    offset: Flag = Field(default=False, description="The source offset.")
    topic: Flag = Field(default=False, description="The source topic.")
    pipeline: Flag = Field(default=False, description="The name of the pipeline.")


def _flags(value: object) -> object:
    """All at once, or one by one."""
    if value in ("enabled", "disabled"):
        return dict.fromkeys(TracingFlags.model_fields, value)
    if not isinstance(value, dict | TracingFlags):
        fault("enabled, disabled, or each of partition, offset, topic and pipeline by itself")
    return value


_EITHER = {"enum": ["enabled", "disabled"]}
_SCHEMA: dict[str, Any] = {
    "anyOf": [
        _EITHER,
        {
            "type": "object",
            "additionalProperties": False,
            "properties": dict.fromkeys(TracingFlags.model_fields, _EITHER),
        },
    ]
}

OneOrAllTracingFlags = Annotated[TracingFlags, BeforeValidator(_flags), WithJsonSchema(_SCHEMA)]
"""`enabled` or `disabled` for all, or a flag for each."""

HeaderName = Annotated[str, Field(min_length=1, pattern=r"^[^\x00]*$")]
"""The key of a header. Kafka takes any text, but the client cuts it off at a NUL."""


class TracingHeaders(Section):
    """The names of the tracing headers."""

    partition: HeaderName = Field(default="__k2k_partition", description="Of the header with the source partition.")
    offset: HeaderName = Field(default="__k2k_offset", description="Of the header with the source offset.")
    topic: HeaderName = Field(default="__k2k_topic", description="Of the header with the source topic.")
    pipeline: HeaderName = Field(default="__k2k_pipeline", description="Of the header with the pipeline's name.")


class Tracing(Section):
    """Tracing headers."""

    headers: TracingHeaders = Field(default_factory=TracingHeaders, description="Their names.")


def tracing_headers(flags: TracingFlags, names: TracingHeaders, pipeline: str) -> AddedHeaders:
    """The tracing headers that are enabled, in the order of the flags.

    Args:
        flags: `features.tracingHeaders`.
        names: `tracing.headers`.
        pipeline: Name of the pipeline.
    """
    headers = (
        (flags.partition, AddedHeader(names.partition, "partition")),
        (flags.offset, AddedHeader(names.offset, "offset")),
        (flags.topic, AddedHeader(names.topic, "topic")),
        (flags.pipeline, AddedHeader(names.pipeline, "text", pipeline)),
    )
    return tuple(header for is_on, header in headers if is_on)
