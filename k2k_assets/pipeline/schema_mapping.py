"""`schemaMapping` and `*.registry`: schema ids that become the target registry's. Read and checked; not built yet."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from k2k_assets.pipeline.regular_expression import RegularExpression
from k2k_assets.pipeline.values import Count, Flag, Section, TextMap

SchemaType = Literal["AVRO", "JSON", "PROTOBUF", "YANG"]


class Registry(Section):
    """A schema registry."""

    config: TextMap = Field(
        default={}, repr=False, description="Settings of its client, such as `schema.registry.url` and credentials."
    )
    headers: TextMap = Field(default={}, repr=False, description="HTTP headers of every request.")
    cache_size: Count = Field(default=31, description="Most schemas that are kept in memory.")


class SchemaRule(Section):
    """Which facets of some topics' records have a schema."""

    pattern: RegularExpression = Field(description="Topics: a regular expression for whole names (required).")
    key: Flag = Field(default=False, description="Whether their keys have one.")
    value: Flag = Field(default=False, description="Whether their values have one.")


class SchemaMapping(Section):
    """Which records have schemas. Without rules: keys and values of all topics."""

    supported_types: tuple[SchemaType, ...] = Field(
        default=("AVRO", "JSON", "PROTOBUF", "YANG"), description="Types of schemas."
    )
    topics: tuple[SchemaRule, ...] = Field(default=(), description="Rules; the first that matches a topic counts.")
