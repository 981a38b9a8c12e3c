"""Records of all kinds of schemas, mapped between two real registries and read by Confluent's deserializers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from uuid import uuid4

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.registry.canonical import schema_digest
from k2k_assets.registry.client import ConfluentRegistry
from k2k_assets.registry.framing import PREFIX, id_of
from k2k_assets.registry.schema_ids import SchemaIds
from k2k_assets.registry.schemas import RegistryUnreachable, Schema, SchemaRefused
from k2k_assets.sandbox.registry import SandboxRegistry
from k2k_assets.stages.schema_mapping import SchemaMapper
from k2k_assets.transport.chunk import Chunk
from k2k_assets_tests.support.copies.schema_records import KINDS, Kind
from k2k_assets_tests.support.memory.fake_records import ListRecords

pytestmark = [pytest.mark.integration, pytest.mark.slow]

Registries = tuple[SandboxRegistry, SandboxRegistry]


@pytest.fixture
def topic() -> str:
    return f"orders-{uuid4().hex[:8]}"


@pytest.fixture
def clients(registries: Registries) -> Iterator[tuple[ConfluentRegistry, ConfluentRegistry]]:
    source, target = registries
    yield ConfluentRegistry("source", {"url": source.url}, {}), ConfluentRegistry("target", {"url": target.url}, {})
    source.resume()
    target.resume()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_ten_thousand_records_are_decoded_on_the_target(
    registries: Registries, clients: tuple[ConfluentRegistry, ConfluentRegistry], topic: str, kind: Kind
) -> None:
    source, target = registries
    write, read = kind.writer(source.url, topic), kind.reader(target.url, f"copy.{topic}")
    values: list[bytes | None] = [write(n) for n in range(10_000)]
    stage = SchemaMapper(SchemaIds(*clients), lambda name: {"value": False}, lambda name: f"copy.{name}")

    chunk = stage(Chunk(TopicPartition(topic, 0), ListRecords(list(range(len(values))), given_values=values)))

    assert chunk.fault is None
    mapped = [value or b"" for value in chunk.columns().values()]
    ids = {id_of((values[0] or b"")[:PREFIX]), id_of(mapped[0][:PREFIX])}
    assert len(ids) == 2, "the ids of the two registries differ"
    assert [read(value) for value in mapped] == list(range(10_000))
    assert [value[PREFIX:] for value in mapped] == [(value or b"")[PREFIX:] for value in values]
    there, here = id_of(values[0] or b""), id_of(mapped[0])
    assert clients[0].schema(there).kind == clients[1].schema(here).kind == kind.name
    assert schema_digest(clients[0], there) == schema_digest(clients[1], here)


def test_a_deleted_subject_is_a_place_for_who_asks_for_those_too(
    clients: tuple[ConfluentRegistry, ConfluentRegistry], topic: str
) -> None:
    source, _ = clients
    subject = f"{topic}-value"
    name = topic.replace("-", "_")
    schema_id = source.register(subject, Schema("AVRO", f'{{"type": "fixed", "name": "{name}", "size": 7}}'))
    places = source.places(schema_id)
    assert [place.subject for place in places] == [subject]
    source._client.delete_subject(subject)
    assert (source.places(schema_id), source.places(schema_id, deleted=True)) == ([], places)


def test_an_incompatible_schema_is_refused_with_the_registrys_words(
    clients: tuple[ConfluentRegistry, ConfluentRegistry], topic: str
) -> None:
    _, target = clients
    subject = f"{topic}-value"
    target.register(subject, Schema("AVRO", '{"type": "record", "name": "A", "fields": []}'))
    target._client.set_compatibility(subject, "BACKWARD")
    other = '{"type": "record", "name": "A", "fields": [{"name": "x", "type": "long"}]}'
    with pytest.raises(SchemaRefused, match=subject):
        target.register(subject, Schema("AVRO", other))


def test_slots_that_register_the_same_schema_at_once_are_told_the_same_id(registries: Registries, topic: str) -> None:
    """The first version of a subject: some registries refuse who comes second while they make the subject."""
    name = topic.replace("-", "_")
    schemas = [Schema("AVRO", f'{{"type": "fixed", "name": "{name}", "size": {n}}}') for n in range(1, 7)]

    def ids(_: int) -> list[int]:
        client = ConfluentRegistry("target", {"url": registries[1].url}, {})

        def register(number: int) -> int:
            # Cold as it is, it may also answer too late to a first question.
            for _ in range(2):
                with suppress(RegistryUnreachable):
                    return client.register(f"{topic}-{number}-value", schemas[number])
            return client.register(f"{topic}-{number}-value", schemas[number])

        return [register(number) for number in range(len(schemas))]

    with ThreadPoolExecutor(4) as slots:
        told = list(slots.map(ids, range(4)))
    assert told == [told[0]] * 4


def test_a_registry_that_stands_still_is_told_within_seconds(
    registries: Registries, clients: tuple[ConfluentRegistry, ConfluentRegistry], topic: str
) -> None:
    registries[1].pause()
    before = time.monotonic()
    with pytest.raises(RegistryUnreachable, match="target's schema registry"):
        clients[1].register(f"{topic}-value", Schema("AVRO", '"long"'))
    assert time.monotonic() - before < 15
    registries[1].resume()
    assert clients[1].register(f"{topic}-value", Schema("AVRO", '"long"')) > 0
