"""A sample topic whose values have schemas: JSON Schema in two versions, framed as Confluent's serializers do it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from k2k_assets.core.errors import K2KError
from k2k_assets.registry.framing import prefix_of
from k2k_assets.sandbox.traffic_writer import SampleRecord, TrafficWriter

READINGS = "demo.readings"
SUBJECT = f"{READINGS}-value"
_RECORDS = 3000
_BASE: dict[str, object] = {"sensor": {"type": "integer"}, "celsius": {"type": "number"}}
_VERSIONS = (_BASE, {**_BASE, "battery": {"type": "number"}})


def write_readings(writer: TrafficWriter, registry: str, chance: random.Random) -> int:
    """Registers the schemas and writes the records, and returns how many.

    The first half has the first version of the schema, the second half the other one.

    Args:
        writer: Writes to the cluster.
        registry: Where the registry's API is.
        chance: For the contents.

    Raises:
        K2KError: The registry refuses the schemas.
    """
    client = SchemaRegistryClient({"url": registry})
    try:
        ids = [client.register_schema(SUBJECT, Schema(_schema(properties), "JSON")) for properties in _VERSIONS]
    except SchemaRegistryError as error:
        raise K2KError(f"The schema registry at {registry} does not take the schemas of {READINGS}: {error}.") from None
    return writer.plain(READINGS, _readings(ids, chance))


def _schema(properties: dict[str, object]) -> str:
    return json.dumps(
        {"type": "object", "title": "Reading", "properties": properties, "additionalProperties": False}, sort_keys=True
    )


def _readings(ids: list[int], chance: random.Random) -> Iterator[SampleRecord]:
    for number in range(_RECORDS):
        version = 2 * number // _RECORDS
        reading: dict[str, object] = {"sensor": number % 40, "celsius": round(chance.gauss(20, 5), 2)}
        if version:
            reading["battery"] = round(chance.random(), 2)
        yield SampleRecord(f"sensor-{number % 40}".encode(), prefix_of(ids[version]) + json.dumps(reading).encode())
