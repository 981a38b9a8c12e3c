"""Registries whose URL names a context: each context has subjects and ids of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from k2k_assets.core.errors import Refused
from k2k_assets.pipeline.clients.client_properties import ClusterRole
from k2k_assets.registry.canonical import schema_digest
from k2k_assets.registry.client import ConfluentRegistry
from k2k_assets.registry.contexts import context_of, subject_in
from k2k_assets.registry.kept_schemas import KeptSchemas
from k2k_assets.registry.schema_ids import SchemaIds, TopicFacet
from k2k_assets.registry.schemas import Reference, Schema, SchemaNotFound, SchemaRefused
from k2k_assets_tests.support.services.context_registry import ContextRegistry

VALUES = TopicFacet("orders", "copy.orders", "value")
ORDER, MONEY = Schema("AVRO", '{"type": "order"}'), Schema("AVRO", '{"type": "money"}')


@pytest.fixture
def confluent() -> Iterator[ContextRegistry]:
    """In each of its contexts the ids begin elsewhere."""
    with ContextRegistry(default=3, prod=7, here=11) as registry:
        yield registry


def asked(role: ClusterRole, url: str, *, registers: bool = True) -> ConfluentRegistry:
    return ConfluentRegistry(role, {"url": url, "max.retries": 0}, {}, registers=registers)


@pytest.mark.parametrize(
    ("url", "context"),
    [
        ("https://registry:8081", ""),
        ("https://registry/contexts/.prod", ":.prod:"),
        ("https://registry/contexts/.prod/", ":.prod:"),
        ("https://registry/behind/contexts/prod", ":.prod:"),
        ("https://registry/contexts/:.prod:", ":.prod:"),
        ("https://registry/contexts/%3A.prod%3A", ":.prod:"),
        ("https://registry/contexts/:.:", ""),
        ("https://registry/contexts/.", ""),
        ("https://contexts/.prod", ""),
    ],
)
def test_contexts_of_urls(url: str, context: str) -> None:
    assert context_of(url) == context


@pytest.mark.parametrize(
    ("context", "subject", "own"),
    [
        (":.prod:", ":.prod:orders-value", "orders-value"),
        (":.prod:", "orders-value", "orders-value"),
        (":.prod:", ":.prod.eu:orders-value", None),
        ("", "orders-value", "orders-value"),
        ("", ":.prod:orders-value", None),
        ("", "a:.b:c", "a:.b:c"),
    ],
)
def test_subjects_in_a_context(context: str, subject: str, own: str | None) -> None:
    assert subject_in(context, subject) == own


def test_addresses_of_two_contexts_are_refused() -> None:
    with pytest.raises(Refused, match=r"addresses of several contexts. See source.registry.config"):
        asked("source", "http://a/contexts/.prod,http://b")
    asked("source", "http://a/contexts/.prod,http://b/contexts/.prod/")


@pytest.mark.parametrize("target_context", ["", ".here"])
@pytest.mark.parametrize("source_context", ["", ".prod"])
def test_a_schema_goes_from_context_to_context(
    confluent: ContextRegistry, source_context: str, target_context: str
) -> None:
    """One registry may hold both: the ids of the target's context are those that its readers look up."""
    there, here = confluent.context(source_context or "."), confluent.context(target_context or ".")
    there.register("shop.Money", MONEY)
    reference = f":{source_context}:shop.Money" if source_context else "shop.Money"
    order = Schema("AVRO", '{"type": "order"}', (Reference("Money", reference, 1),))
    earlier = Schema("AVRO", '{"type": "earlier"}')
    there.register("orders-value", earlier)
    schema_id = there.register("orders-value", order)
    source, target = asked("source", confluent.url(source_context)), asked("target", confluent.url(target_context))

    target_id = SchemaIds(source, target).target_id(schema_id, VALUES)

    assert [each.text for each in here.subjects["copy.orders-value"]] == [earlier.text, order.text]
    assert here.schema(target_id).text == order.text
    assert here.schema(target_id).references == (Reference("Money", "shop.Money", 1),)
    assert set(confluent.contexts) == {source_context or ".", target_context or "."}
    assert schema_digest(source, schema_id) == schema_digest(target, target_id)
    kept = KeptSchemas(target, {"orders": "copy.orders"}.get)
    assert kept.digest(source, schema_id, "orders", "value") == schema_digest(target, target_id)


def test_what_only_another_context_has_is_not_found(confluent: ContextRegistry) -> None:
    """Asked without a context, the registry looks into all: an id of another one means another schema here."""
    confluent.context(".prod").register("copy.orders-value", ORDER)
    schema_id = confluent.context(".here").register("orders-value", ORDER)
    target = asked("target", confluent.url(), registers=False)
    with pytest.raises(SchemaNotFound, match=r"in another context only: :\.prod:copy\.orders-value"):
        target.id_of("copy.orders-value", ORDER)
    with pytest.raises(SchemaRefused):
        SchemaIds(asked("source", confluent.url(".here")), target).target_id(schema_id, VALUES)
    own = confluent.context(".").register("copy.orders-value", ORDER)
    assert SchemaIds(asked("source", confluent.url(".here")), target).target_id(schema_id, VALUES) == own
