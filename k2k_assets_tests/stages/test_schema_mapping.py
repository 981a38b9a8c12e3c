"""Schema ids in keys and values are replaced by those of the target's registry."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from k2k_assets.core.stops.reasons.schemas import (
    SchemaIdMissing,
    SchemaNotOnSource,
    SchemaOfOtherTopic,
    SchemaRefusedByTarget,
)
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline.sections.schema_mapping import Facet, RefusedPayloads
from k2k_assets.registry.schema_ids import SchemaIds
from k2k_assets.registry.schemas import RegistryUnreachable, Schema
from k2k_assets.stages.schema_mapping import SchemaMapper
from k2k_assets.transport.chunk import Chunk, Records
from k2k_assets.transport.record_batch.batches.batch import batch_at
from k2k_assets.transport.record_batch.batches.columns import BatchRecords, arrived
from k2k_assets_tests.support.brokers.batches import PackedRecord, pack_batch
from k2k_assets_tests.support.memory.fake_records import ListRecords
from k2k_assets_tests.support.services.registries import RegistryInMemory

NOTHING = RefusedPayloads()
ORDERS = TopicPartition("orders", 0)
BOTH: dict[Facet, bool] = {"key": True, "value": True}
A, B = (Schema("AVRO", f'"{name}"') for name in ("string", "long"))


def framed(schema_id: int, payload: bytes = b"payload") -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + payload


@pytest.fixture(autouse=True, params=["decoded", "undecoded"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All is the same where whole batches come, in which ids are replaced without decoding."""
    monkeypatch.setattr(World, "is_undecoded", request.param == "undecoded")


class World:
    """Two registries and a stage between them."""

    is_undecoded = False

    def __init__(self, facets: Mapping[Facet, bool] = BOTH, refusals: RefusedPayloads = NOTHING) -> None:
        self.source, self.target = RegistryInMemory(1), RegistryInMemory(500)
        ids = SchemaIds(self.source, self.target)
        self.stage = SchemaMapper(ids, lambda topic: facets, lambda t: f"copy.{t}", lambda topic: refusals)

    def map(self, keys: list[bytes | None], values: list[bytes | None]) -> Chunk:
        records: Records = ListRecords(list(range(10, 10 + len(values))), given_keys=keys, given_values=values)
        if self.is_undecoded:
            packed = [PackedRecord(n, *pair) for n, pair in enumerate(zip(keys, values, strict=True))]
            batch = pack_batch(10, packed)
            found = arrived(batch_at(memoryview(batch), 0, len(batch)), 10)
            assert found is not None
            records = BatchRecords(ORDERS, [found])
        return self.stage(Chunk(ORDERS, records, target_partition=0))


def test_ids_of_keys_and_values_are_mapped_and_payloads_stay() -> None:
    world = World()
    key, value = world.source.register("orders-key", A), world.source.register("orders-value", B)

    chunk = world.map([framed(key), framed(key, b"")], [framed(value, b"\0\x02 one"), framed(value)])

    assert chunk.columns().keys() == [framed(500), framed(500, b"")]
    assert chunk.columns().values() == [framed(501, b"\0\x02 one"), framed(501)]
    assert world.target.subjects == {"copy.orders-key": [A], "copy.orders-value": [B]}
    assert chunk.readable() == (chunk, None)


def test_what_is_not_framed_stays_as_it_is() -> None:
    world = World()
    odd: list[bytes | None] = [None, b"", b"\0", b"\0\0\0\1", b"text that is long", b"\1\0\0\0\1x"]
    chunk = world.map(odd, odd)
    assert list(chunk.columns().keys()) == list(chunk.columns().values()) == odd
    assert world.source.asked == 0


def test_a_part_that_has_no_schemas_is_not_looked_at() -> None:
    world = World({"value": True})
    value = world.source.register("orders-value", B)
    long_key = (1 << 24).to_bytes(8, "big")  # begins as schema id 1 does
    chunk = world.map([long_key], [framed(value)])
    assert (chunk.columns().keys(), chunk.columns().values()) == ([long_key], [framed(500)])

    untouched = World({})
    chunk = untouched.map([long_key], [framed(value)])
    assert chunk.columns().values() == [framed(value)]


def test_an_id_is_asked_for_once() -> None:
    world = World()
    value = world.source.register("orders-value", B)
    world.map([None], [framed(value)])
    asked = world.source.asked
    world.map([None] * 100, [framed(value)] * 100)
    assert world.source.asked == asked


@pytest.mark.parametrize("at", [0, 2])
def test_a_record_with_an_unknown_id_ends_the_chunk(at: int) -> None:
    world = World()
    value = world.source.register("orders-value", B)
    values: list[bytes | None] = [framed(value)] * 4
    values[at] = framed(77)

    readable, fault = world.map([None] * 4, values).readable()

    assert isinstance(fault, SchemaNotOnSource)
    assert (fault.offset, fault.facet, fault.schema_id) == (10 + at, "value", 77)
    if at == 0:
        assert readable is None
    else:
        assert readable is not None
        assert readable.columns().values() == [framed(500)] * 2
        assert readable.last_offset == 11


@pytest.mark.parametrize(("bad_key", "bad_value", "facet"), [(1, 2, "key"), (2, 1, "value")])
def test_the_first_record_at_fault_counts(bad_key: int, bad_value: int, facet: str) -> None:
    world = World()
    key, value = world.source.register("orders-key", A), world.source.register("orders-value", B)
    keys: list[bytes | None] = [framed(key)] * 4
    values: list[bytes | None] = [framed(value)] * 4
    keys[bad_key], values[bad_value] = framed(77), framed(78)

    readable, fault = world.map(keys, values).readable()

    assert isinstance(fault, SchemaNotOnSource)
    assert (fault.offset, fault.facet) == (11, facet)
    assert readable is not None
    assert readable.columns().keys() == [framed(500)]
    assert readable.columns().values() == [framed(501)]


def test_a_schema_that_the_target_refuses_is_named_with_its_subject() -> None:
    world = World()
    world.target._takes = lambda subject, schema: False
    value = world.source.register("orders-value", B)
    _, fault = world.map([None], [framed(value)]).readable()
    assert isinstance(fault, SchemaRefusedByTarget)
    assert (fault.schema_id, fault.subject) == (value, "copy.orders-value")


@pytest.mark.parametrize("subject", ["orders-value", "shop.Order", "orders-shop.Order", ""])
def test_without_a_rule_a_long_key_that_looks_like_an_id_of_values_is_not_changed(subject: str) -> None:
    """40,000,000 begins as schema id 2 does: with the target's id it would be 8,395,053,568."""
    world = World({"key": False, "value": False})
    world.source.register("payments-value", A)
    value = world.source.register(subject or "orders-value", B)
    key = (40_000_000).to_bytes(8, "big")
    assert key.startswith(framed(value, b""))
    if not subject:
        world.source.subjects.clear()  # deleted: the id is known all the same

    readable, fault = world.map([None, key], [framed(value), framed(value)]).readable()

    assert isinstance(fault, SchemaOfOtherTopic)
    assert (fault.offset, fault.facet, fault.subjects) == (11, "key", subject)
    assert readable is not None
    assert readable.columns().values() == [framed(500)]
    certain = World({"key": True})
    certain.source.register("payments-value", A)
    certain.source.register("shop.Id", B)
    assert certain.map([framed(value)], [None]).columns().keys() == [framed(500)]


def test_without_a_rule_a_value_with_an_id_of_the_topics_keys_is_not_changed() -> None:
    world = World({"key": False, "value": False})
    key = world.source.register("orders-key", A)
    _, fault = world.map([framed(key)], [framed(key)]).readable()
    assert isinstance(fault, SchemaOfOtherTopic)
    assert (fault.facet, fault.subjects) == ("value", "orders-key")


def test_without_a_rule_a_long_key_that_looks_like_another_topics_id_is_not_changed() -> None:
    world = World({"key": False, "value": False})
    assert world.source.register("payments-value", B) == 1
    readable, fault = world.map([(1 << 24).to_bytes(8, "big")], [None]).readable()
    assert readable is None
    assert isinstance(fault, SchemaOfOtherTopic)
    assert (fault.facet, fault.subjects) == ("key", "payments-value")


@pytest.mark.parametrize("odd", [b"", b"\0", b"\0\0\0\1", b"text that is long", b"\1\0\0\0\1x"])
@pytest.mark.parametrize("at", [0, 2])
def test_what_is_not_framed_ends_the_chunk_where_a_rule_refuses_it(odd: bytes, at: int) -> None:
    world = World({"value": True}, RefusedPayloads(unframed=True))
    value = framed(world.source.register("orders-value", B))
    values: list[bytes | None] = [value, None, value, value]
    values[at] = odd

    readable, fault = world.map([odd] * 4, values).readable()

    assert fault == SchemaIdMissing(TopicPartition("orders", 0), 10 + at, "value", "unframed")
    assert (readable.columns().values() if readable else []) == [framed(500), None][:at]


@pytest.mark.parametrize("at", [0, 2])
def test_null_ends_the_chunk_where_a_rule_refuses_it(at: int) -> None:
    world = World({"key": True, "value": True}, RefusedPayloads(nulls=True))
    value = framed(world.source.register("orders-value", B))
    values: list[bytes | None] = [value, b"text", value, framed(77)]
    values[at] = None

    readable, fault = world.map([b"text"] * 4, values).readable()

    assert fault == SchemaIdMissing(TopicPartition("orders", 0), 10 + at, "value", "nulls")
    assert (readable.columns().values() if readable else []) == [framed(500), b"text"][:at]


@pytest.mark.parametrize(
    ("keys", "values", "found"),
    [
        ([b"k", None], [None, b"v"], (10, "key", "unframed")),
        ([None, b"k"], [b"v", None], (10, "key", "nulls")),
        ([b"\0\0\0\0\1", None], [None, b"v"], (10, "value", "nulls")),
        ([b"\0\0\0\0\1", b"k"], [b"v", None], (10, "value", "unframed")),
        ([b"\0\0\0\0\1", None], [b"\0\0\0\0\1", b"v"], (11, "key", "nulls")),
        ([None, b"k"], [None, b"k"], (10, "key", "nulls")),
    ],
)
def test_the_first_record_that_is_refused_counts(
    keys: list[bytes | None], values: list[bytes | None], found: tuple[int, Facet, str]
) -> None:
    world = World(refusals=RefusedPayloads(unframed=True, nulls=True))
    world.source.register("orders-key", A)
    _, fault = world.map(keys, values).readable()
    assert fault == SchemaIdMissing(TopicPartition("orders", 0), *found)


@pytest.mark.parametrize(("at", "part"), [(0, "value"), (2, "value"), (2, "key"), (0, "key")])
def test_while_a_registry_is_away_what_is_known_is_mapped_up_to_the_first_new_id(at: int, part: str) -> None:
    world = World()
    key, value = world.source.register("orders-key", A), world.source.register("orders-value", B)
    world.map([framed(key)], [framed(value)])

    def away(schema_id: int) -> Schema:
        raise RegistryUnreachable("the source's registry does not answer")

    world.source.schema = away  # type: ignore[method-assign]
    keys: list[bytes | None] = [framed(key)] * 4
    values: list[bytes | None] = [framed(value)] * 4
    (keys if part == "key" else values)[at] = framed(77)
    if at == 0:
        with pytest.raises(RegistryUnreachable):
            world.map(keys, values)
        return
    chunk = world.map(keys, values)
    assert isinstance(chunk.awaited, RegistryUnreachable)
    assert (chunk.fault, chunk.last_offset) == (None, 11)
    assert chunk.columns().values() == [framed(501)] * 2
