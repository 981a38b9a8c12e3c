"""A target registry that began with a copy of the source's, ids and all, as a copied `_schemas` topic makes it."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest

from k2k_assets.registry.client import ConfluentRegistry
from k2k_assets.registry.framing import PREFIX, id_of, prefix_of
from k2k_assets.registry.schemas import Schema
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.sandbox.registry import SandboxRegistry
from k2k_assets_tests.registry.conftest import Registries
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import Make
from k2k_assets_tests.support.copies.schema_records import KINDS, Kind

pytestmark = [pytest.mark.integration, pytest.mark.slow]

KEEPS_IDS = {"X-Registry-Preserve-GlobalId": "true", "X-Registry-Preserve-ContentId": "true"}


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxRegistry]:
    """A target registry that holds nothing."""
    registry = SandboxRegistry("target", tmp_path_factory.mktemp("retained"), temporary=True)
    try:
        registry.start()
        yield registry
    finally:
        registry.kill()


@pytest.fixture(scope="module")
def topics(clusters: KafkaSandbox, registries: Registries) -> dict[str, str]:
    """A topic of each kind of schema, written before the registry is copied."""
    made = {kind.name: create_topic(clusters.source_servers, unique("orders")) for kind in KINDS}
    for kind in KINDS:
        write = kind.writer(registries[0].url, made[kind.name])
        produce(clusters.source_servers, made[kind.name], [write(n) for n in range(20)])
    return made


@pytest.fixture(scope="module")
def target(registries: Registries, empty: SandboxRegistry, topics: dict[str, str]) -> SandboxRegistry:
    """The registry with all that the source's holds, under the same ids."""
    assert topics
    with urllib.request.urlopen(f"{_admin(registries[0])}/export", timeout=30.0) as answer:
        exported = answer.read()
    wanted = urllib.request.Request(
        f"{_admin(empty)}/import", exported, {"Content-Type": "application/zip", **KEEPS_IDS}, method="POST"
    )
    with urllib.request.urlopen(wanted, timeout=30.0):
        return empty


def _admin(registry: SandboxRegistry) -> str:
    return registry.url.replace("/ccompat/v7", "/registry/v2/admin")


def clients(registries: Registries, target: SandboxRegistry) -> tuple[ConfluentRegistry, ConfluentRegistry]:
    return ConfluentRegistry("source", {"url": registries[0].url}, {}), ConfluentRegistry(
        "target", {"url": target.url}, {}
    )


@pytest.mark.parametrize(("mapping", "prefix"), [(False, "off."), (True, "on."), (True, "")])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_each_id_is_mapped_to_itself_so_mapping_may_be_off(
    clusters: KafkaSandbox, registries: Registries, make: Make, topics: dict[str, str], target: SandboxRegistry,
    kind: Kind, mapping: bool, prefix: str,
) -> None:  # fmt: skip
    """Mapped, the schema is registered for a target topic of another name; else there is nothing to register."""
    topic, there = topics[kind.name], clients(registries, target)[1]
    urls = (registries[0].url, target.url) if mapping else None
    subjects = set(there._client.get_subjects())

    assert copy(make([topic], sink={"prefix": prefix} if prefix else "source", registries=urls)).stopped == {}

    copied = [record.value or b"" for record in read_all(clusters.target_servers, f"{prefix}{topic}")]
    assert copied == [record.value for record in read_all(clusters.source_servers, topic)]
    read = kind.reader(target.url, f"{prefix}{topic}")
    assert [read(value) for value in copied] == list(range(20))
    new = {f"{prefix}{topic}-value"} if mapping and prefix else set()
    assert set(there._client.get_subjects()) - subjects == new
    assert {tuple(there.versions(subject)) for subject in (f"{topic}-value", *new)} == {(1,)}


def registered(client: ConfluentRegistry) -> tuple[int, Schema]:
    """A schema that nobody has, with the id that a registry gives it."""
    name = unique("own").replace("-", "_")
    schema = Schema("AVRO", f'{{"type": "fixed", "name": "{name}", "size": 2}}')
    return client.register(name, schema), schema


def test_an_id_that_another_schema_has_taken_there_is_mapped_to_a_new_one(
    clusters: KafkaSandbox, registries: Registries, make: Make, target: SandboxRegistry
) -> None:
    """Each registry has given an id to a schema of its own: copied as it is, the record would be read by theirs."""
    source, there = clients(registries, target)
    (schema_id, ours), (taken, theirs) = registered(source), registered(there)
    while schema_id != taken:
        if schema_id < taken:
            schema_id, ours = registered(source)
        else:
            taken, theirs = registered(there)
    topic = create_topic(clusters.source_servers, unique("orders"))
    produce(clusters.source_servers, topic, [prefix_of(schema_id) + b"xy"])
    rule = {"topics": [{"pattern": ".*", "value": "enabled"}]}

    urls = (registries[0].url, target.url)
    assert copy(make([topic], sink="source", registries=urls, schemaMapping=rule)).stopped == {}

    (record,) = read_all(clusters.target_servers, topic)
    mapped = id_of((record.value or b"")[:PREFIX])
    assert mapped != schema_id
    assert (there.schema(mapped), there.schema(schema_id)) == (ours, theirs)
