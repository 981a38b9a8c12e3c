from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from k2k_assets.registry import schema_ids
from k2k_assets.registry.canonical import schema_digest
from k2k_assets.registry.schema_ids import SchemaIds, TopicFacet
from k2k_assets.registry.schemas import (
    MoreToRegister,
    Reference,
    RegistryUnreachable,
    Schema,
    SchemaNotFound,
    SchemaOfOthers,
    SchemaRefused,
)
from k2k_assets_tests.support.services.registries import RegistryInMemory

VALUES = TopicFacet("orders", "copy.orders", "value")


def avro(name: str, *references: Reference) -> Schema:
    return Schema("AVRO", f'{{"type": "record", "name": "{name}", "fields": []}}', references)


def test_a_schema_is_registered_for_the_target_topic_with_all_before_it() -> None:
    source, target = RegistryInMemory(1), RegistryInMemory(50)
    versions = [avro(name) for name in "abc"]
    ids = [source.register("orders-value", schema) for schema in versions]

    assert SchemaIds(source, target).target_id(ids[1], VALUES) == 51
    assert target.subjects == {"copy.orders-value": versions[:2]}


def test_what_is_there_already_gets_no_second_version() -> None:
    source, target = RegistryInMemory(1), RegistryInMemory(50)
    schema_id = source.register("orders-value", avro("a"))
    known = target.register("copy.orders-value", avro("a"))

    assert SchemaIds(source, target).target_id(schema_id, VALUES) == known
    assert target.subjects == {"copy.orders-value": [avro("a")]}


def test_references_are_registered_first_and_numbered_anew() -> None:
    source, target = RegistryInMemory(1), RegistryInMemory(50)
    target.register("shop.Money", avro("other"))
    source.register("shop.Money", avro("money"))
    item = avro("item", Reference("shop.Money", "shop.Money", 1))
    source.register("shop.Item", item)
    order = avro("order", Reference("shop.Item", "shop.Item", 1))
    schema_id = source.register("orders-value", order)

    target_id = SchemaIds(source, target).target_id(schema_id, VALUES)

    assert target.subjects["shop.Money"] == [avro("other"), avro("money")]
    assert target.subjects["shop.Item"] == [avro("item", Reference("shop.Money", "shop.Money", 2))]
    assert target.subjects["copy.orders-value"] == [order]
    assert schema_digest(target, target_id) == schema_digest(source, schema_id)


def test_an_earlier_version_that_is_refused_is_no_fault() -> None:
    source = RegistryInMemory(1)
    target = RegistryInMemory(50, takes=lambda subject, schema: schema != avro("a"))
    ids = [source.register("orders-value", avro(name)) for name in "ab"]
    mapping = SchemaIds(source, target)

    assert mapping.target_id(ids[1], VALUES) == 50
    with pytest.raises(SchemaRefused) as refused:
        mapping.target_id(ids[0], VALUES)
    assert refused.value.subject == "copy.orders-value"


def test_an_unknown_id_is_not_guessed() -> None:
    with pytest.raises(SchemaNotFound):
        SchemaIds(RegistryInMemory(1), RegistryInMemory(50)).target_id(7, VALUES)


def test_a_schema_of_another_topic_needs_a_rule() -> None:
    source, target = RegistryInMemory(1), RegistryInMemory(50)
    schema_id = source.register("payments-value", avro("a"))
    mapping = SchemaIds(source, target)
    with pytest.raises(SchemaOfOthers) as others:
        mapping.target_id(schema_id, TopicFacet("orders", "copy.orders", "key", is_certain=False))
    assert others.value.subjects == ["payments-value"]
    assert target.subjects == {}

    assert mapping.target_id(schema_id, VALUES) == 50
    assert target.subjects == {"copy.orders-value": [avro("a")]}


def test_digests_see_references_and_no_spaces() -> None:
    one, other = RegistryInMemory(1), RegistryInMemory(9)
    spaced = Schema("AVRO", '{"name": "a",  "type": "record", "fields": []}')
    assert schema_digest(one, one.register("s", avro("a"))) == schema_digest(other, other.register("s", spaced))

    one.register("r", avro("x"))
    other.register("r", avro("y"))
    using = avro("u", Reference("r", "r", 1))
    assert schema_digest(one, one.register("s", using)) != schema_digest(other, other.register("s", using))
    as_json = Schema("JSON", avro("a").text)
    assert schema_digest(one, one.register("j", as_json)) != schema_digest(one, one.register("s", avro("a")))


def test_what_an_error_broke_off_is_gone_on_with() -> None:
    source = RegistryInMemory(1)
    away = [True]

    def answers(subject: str, schema: Schema) -> bool:
        if away and schema == avro("b"):
            raise RegistryUnreachable("the target's registry does not answer")
        return True

    target = RegistryInMemory(50, takes=answers)
    ids = [source.register("orders-value", avro(name)) for name in "abc"]
    mapping = SchemaIds(source, target)
    with pytest.raises(RegistryUnreachable):
        mapping.target_id(ids[2], VALUES)
    away.clear()

    assert mapping.target_id(ids[2], VALUES) == 52
    assert target.subjects["copy.orders-value"] == [avro(name) for name in "abc"]


class Noting:
    """A registry that notes each request."""

    def __init__(self, registry: RegistryInMemory, notes: list[str]) -> None:
        self._registry, self._notes = registry, notes

    def __getattr__(self, name: str) -> Any:
        self._notes.append("asked")
        return getattr(self._registry, name)


def test_before_each_request_there_is_time_for_something_else() -> None:
    """The slot writes heartbeats: with references and versions a first id takes many requests, each of some seconds."""
    source, target = RegistryInMemory(1), RegistryInMemory(50)
    source.register("shop.Money", avro("money"))
    ids = [source.register("orders-value", avro(n, Reference("shop.Money", "shop.Money", 1))) for n in "abc"]
    notes: list[str] = []
    mapping = SchemaIds(Noting(source, notes), Noting(target, notes))
    mapping.while_waiting = lambda: notes.append("told")
    mapping.target_id(ids[2], VALUES)
    assert len(notes) > 20
    assert notes == ["told", "asked"] * (len(notes) // 2)


def test_many_versions_are_registered_in_several_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others would take over from a slot that is silent for long."""
    monkeypatch.setattr(schema_ids, "_SECONDS", 0.0)
    source, target = RegistryInMemory(1), RegistryInMemory(50)
    ids = [source.register("orders-value", avro(name)) for name in "abc"]
    mapping = SchemaIds(source, target)
    with pytest.raises(RegistryUnreachable, match="goes on with version 2"):
        mapping.target_id(ids[2], VALUES)
    assert mapping.target_id(ids[2], VALUES) == 52, "each round registers one at least"


@pytest.mark.parametrize("versions", [1, 2])
def test_a_schema_with_many_references_is_registered_in_several_goes(
    monkeypatch: pytest.MonkeyPatch, versions: int
) -> None:
    """What is done of them is done: a round that begins anew would never come to the last ones."""
    monkeypatch.setattr(schema_ids, "_SECONDS", 0.0)
    source, target = RegistryInMemory(1), RegistryInMemory(50)
    for name in "abc":
        for version in range(versions):
            source.register(name, avro(f"{name}{version}"))
    references = tuple(Reference(name, name, versions) for name in "abc")
    schema_id = source.register("orders-value", Schema("AVRO", '["a", "b", "c"]', references))
    mapping = SchemaIds(source, target)
    rounds = 0
    while rounds < 9:
        rounds += 1
        with suppress(MoreToRegister):
            mapping.target_id(schema_id, VALUES)
            break
    assert 3 <= rounds < 9
    assert [len(target.versions(name)) for name in "abc"] == [versions] * 3


def test_what_is_found_of_references_outlives_a_registry_that_is_away() -> None:
    source, target = RegistryInMemory(1), RegistryInMemory(50)
    for name in "ab":
        source.register(name, avro(name))
    references = tuple(Reference(name, name, 1) for name in "ab")
    schema_id = source.register("orders-value", Schema("AVRO", '["a", "b"]', references))
    asked: list[str] = []
    register = target.register

    def away_once(subject: str, schema: Schema) -> int:
        asked.append(subject)
        if asked == ["a", "b"]:
            raise RegistryUnreachable("it starts again")
        return register(subject, schema)

    target.register = away_once  # type: ignore[method-assign]
    mapping = SchemaIds(source, target)
    with pytest.raises(RegistryUnreachable):
        mapping.target_id(schema_id, VALUES)
    mapping.target_id(schema_id, VALUES)
    assert asked[:3] == ["a", "b", "b"], "the first one is not asked for again"
