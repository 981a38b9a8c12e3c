"""The demo's topic with schemas, decoded on both clusters: each value with the schema that its own registry has."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from k2k_assets.core.words import plural
from k2k_assets.registry.framing import PREFIX, has_schema_id, id_of

Value = bytes | None
SchemaOf = Callable[[int], str | None]
"""The text of a schema; None: the registry has no schema with that id."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """How the values of a topic were decoded on the target.

    Attributes:
        topic: Its name.
        values: How many were decoded, and are what the source's registry makes of their originals.
        source_ids: Schema ids on the source.
        target_ids: Schema ids on the target.
        faults: What is not as it must be, a line each.
    """

    topic: str
    values: int
    source_ids: tuple[int, ...]
    target_ids: tuple[int, ...]
    faults: tuple[str, ...]


def schemas_at(registry: str) -> SchemaOf:
    """The schemas of a registry.

    Args:
        registry: Where its API is.
    """
    client = SchemaRegistryClient({"url": registry})

    def schema_of(schema_id: int) -> str | None:
        try:
            return client.get_schema(schema_id).schema_str
        except SchemaRegistryError:
            return None

    return schema_of


class _Reading(NamedTuple):
    """A value as a reader sees it.

    Attributes:
        schema: The text of its schema.
        content: What it holds.
    """

    schema: str
    content: Mapping[str, object]


class _Unreadable(Exception):
    """A value cannot be decoded."""


def compare_decoded(
    topic: str,
    source: Mapping[int, list[Value]],
    target: Mapping[int, list[Value]],
    schemas: tuple[SchemaOf, SchemaOf],
) -> Decoded:
    """Decodes a topic on both clusters, record by record.

    Args:
        topic: Its name.
        source: Values by partition, in order.
        target: Likewise on the target.
        schemas: What the source's registry has, and the target's.
    """
    readers = [_Reader(schema_of) for schema_of in schemas]
    good, faults = 0, []
    for partition in sorted({*source, *target}):
        originals, copies = source.get(partition, []), target.get(partition, [])
        if len(originals) != len(copies):
            counts = f"{plural(len(originals), 'value')} on the source, {len(copies):,} on the target"
            faults.append(f"{topic}-{partition}: {counts}")
        for number, values in enumerate(zip(originals, copies, strict=False)):
            try:
                before, after = (reader.read(value) for reader, value in zip(readers, values, strict=True))
            except _Unreadable as error:
                faults.append(f"{topic}-{partition}, value {number}: {error}")
                continue
            if before == after:
                good += 1
            else:
                faults.append(f"{topic}-{partition}, value {number}: {before} on the source, {after} on the target")
    ids = [tuple(sorted(reader.ids)) for reader in readers]
    return Decoded(topic, good, ids[0], ids[1], tuple(faults))


class _Reader:
    """Decodes values by the schemas of one registry, as an application does that knows no other."""

    def __init__(self, schema_of: SchemaOf) -> None:
        self._schema_of = schema_of
        self._schemas: dict[int, str] = {}

    @property
    def ids(self) -> Iterable[int]:
        """The schema ids that were met."""
        return self._schemas.keys()

    def read(self, value: Value) -> _Reading:
        """Decodes a value.

        Raises:
            _Unreadable: It has no schema id, or its registry has no such schema, or the schema has not its fields.
        """
        if value is None or not has_schema_id(value):
            raise _Unreadable("no schema id")
        text = self._schema(id_of(value))
        content = json.loads(value[PREFIX:])
        unknown = content.keys() - json.loads(text).get("properties", {}).keys()
        if unknown:
            raise _Unreadable(f"schema {id_of(value)} does not have {', '.join(sorted(unknown))}")
        return _Reading(text, content)

    def _schema(self, schema_id: int) -> str:
        if schema_id not in self._schemas:
            found = self._schema_of(schema_id)
            if found is None:
                raise _Unreadable(f"its registry does not have schema {schema_id}")
            self._schemas[schema_id] = found
        return self._schemas[schema_id]
