"""Copies whose schemas a target keeps in another text are right, and others are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from k2k_assets.registry.framing import prefix_of
from k2k_assets.registry.kept_schemas import KeptSchemas
from k2k_assets.registry.schema_ids import SchemaIds, TopicFacet
from k2k_assets.registry.schemas import Reference, Schema
from k2k_assets.verification.content.payloads import Payloads
from k2k_assets_tests.support.services.registries import RegistryInMemory

LONG, SHORT = '{"type": "string"}', '"string"'
VALUES = TopicFacet("or-ders", "copy.or-ders", "value")


def normal(schema: Schema) -> Schema:
    return replace(schema, text=schema.text.replace(LONG, SHORT))


def avro(name: str, *references: Reference) -> Schema:
    text = f'{{"type": "record", "name": "{name}", "fields": [{{"name": "f", "type": {LONG}}}]}}'
    return Schema("AVRO", text, references)


class World:
    """A source, a target that normalizes, and both sides of a content check."""

    def __init__(self) -> None:
        self.source, self.target = RegistryInMemory(1), RegistryInMemory(50, normal=normal)
        kept = KeptSchemas(self.target, lambda topic: f"copy.{topic}" if topic == "or-ders" else None)
        self.sides = Payloads(lambda: self.source, lambda: kept), Payloads(lambda: self.target)

    def copied(self, schema_id: int) -> int:
        return SchemaIds(self.source, self.target).target_id(schema_id, VALUES)

    def are_equal(self, source_id: int, target_id: int) -> bool:
        (_, of_source), (_, of_target) = (
            side.schemas(topic, None, prefix_of(schema_id) + b"x", "value")
            for side, topic, schema_id in zip(
                self.sides, ("or-ders", "copy.or-ders"), (source_id, target_id), strict=True
            )
        )
        assert of_source
        assert of_target
        return of_source.is_kept_by(of_target)


@pytest.mark.parametrize("subject", ["or-ders-value", "or-ders-shop.Order", "shop.Order", "pay-ments-value"])
def test_another_text_of_the_same_schema_is_equal(subject: str) -> None:
    world = World()
    one, other = (world.source.register(subject, avro(name)) for name in "ab")
    copies = world.copied(one), world.copied(other)
    assert world.target.schema(copies[0]).text != world.source.schema(one).text
    before = {name: list(schemas) for name, schemas in world.target.subjects.items()}
    assert [world.are_equal(a, b) for a in (one, other) for b in copies] == [True, False, False, True]
    assert before == world.target.subjects, "nothing was registered"


@pytest.mark.parametrize("subject", ["or-ders-value", "or-ders-shop.Order", "shop.Order"])
@pytest.mark.parametrize("is_before", [True, False], ids=["before it was copied", "since"])
def test_a_schema_whose_subject_was_deleted_on_the_source(subject: str, is_before: bool) -> None:
    """Its id still leads to it, and the target has it under the topic's own name, or that which it had."""
    world = World()
    schema_id = world.source.register(subject, avro("a"))
    if is_before:
        world.source.deleted.add(subject)
    copy = world.copied(schema_id)
    world.source.deleted.add(subject)
    assert world.are_equal(schema_id, copy)


def test_references_are_those_of_the_target() -> None:
    world = World()
    world.target.register("shop.Money", avro("other"))
    world.source.register("shop.Money", avro("money"))
    order = world.source.register("or-ders-value", avro("order", Reference("shop.Money", "shop.Money", 1)))
    plain = world.source.register("or-ders-value", avro("order"))
    assert world.are_equal(order, world.copied(order))
    assert not world.are_equal(plain, world.copied(order))


def test_what_the_target_does_not_have_is_compared_as_it_is() -> None:
    world = World()
    lost = world.source.register("or-ders-value", avro("a"))
    other = world.target.register("copy.or-ders-value", avro("b"))
    assert not world.are_equal(lost, other)
    assert list(world.target.subjects) == ["copy.or-ders-value"]


def test_a_target_that_normalizes_and_has_no_metadata_has_the_schema_all_the_same() -> None:
    """Copied before they were carried over, or where the target does not take them. Rules that it lost are seen."""
    world = World()
    plain, ruled = avro("a", Reference("m", "m", 1)), avro("b")
    world.source.register("m", replace(avro("m"), metadata='{"properties": {"a": "b"}}'))
    world.target.register("m", avro("m"))
    rules = '{"domainRules": [{"name": "r"}]}'
    ids = [
        world.source.register("or-ders-value", each)
        for each in (replace(plain, metadata='{"properties": {"a": "b"}}'), replace(ruled, rules=rules))
    ]
    copies = [world.target.register("copy.or-ders-value", each) for each in (plain, ruled)]
    assert [world.are_equal(*each) for each in zip(ids, copies, strict=True)] == [True, False]
