"""A record's key and value as they are compared: through the mapping of schema ids.

On each side an id stands for the digest of the schema that this side's own registry has under it. So a copy is equal
where its schema is the same, whatever its id, and neither the ids nor whoever has mapped them is trusted. A schema that
was deleted since it was copied cannot be compared; what follows its id can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.clients.client_properties import ClusterRole
from k2k_assets.pipeline.sections.schema_mapping import Facet, facets_word
from k2k_assets.registry.framing import PREFIX, has_schema_id, id_of
from k2k_assets.registry.schemas import Registry, SchemaNotFound

if TYPE_CHECKING:
    from k2k_assets.registry.canonical import SchemaDigest
    from k2k_assets.registry.kept_schemas import KeptSchemas

Payload = bytes | None


def without_ids(key: Payload, value: Payload, facets: str) -> tuple[Payload, Payload]:
    """A record's key and value without their schema ids.

    Args:
        key: The key.
        value: The value.
        facets: Those whose ids are mapped, as `schema_mapping.facets_word`.
    """
    return (_without_id(key) if "key" in facets else key, _without_id(value) if "value" in facets else value)


def _without_id(payload: Payload) -> Payload:
    return payload[:1] + payload[PREFIX:] if payload and has_schema_id(payload) else payload


class Payloads:
    """The schemas of keys and values of one side.

    Args:
        open_registry: Opens its registry. Nothing is asked of it while no facet has schemas. Raises `SchemaNotFound` if
            there is none any more.
        open_kept: Opens what tells how the other side keeps this one's schemas; it opens None where it keeps them as
            they are.
    """

    def __init__(
        self, open_registry: Callable[[], Registry], open_kept: Callable[[], KeptSchemas | None] = lambda: None
    ) -> None:
        self._open, self._open_kept = open_registry, open_kept
        self._registry: Registry | None = None
        self._kept: KeptSchemas | None = None
        self._digests: dict[tuple[str, Facet, bytes], SchemaDigest | None] = {}

    def __reduce__(
        self,
    ) -> tuple[type[Payloads], tuple[Callable[[], Registry], Callable[[], KeptSchemas | None]]]:
        """Spark's workers open clients of their own."""
        return Payloads, (self._open, self._open_kept)

    def schemas(self, topic: str, key: Payload, value: Payload, facets: str) -> list[SchemaDigest | None]:
        """The digests of the schemas of a key and a value; of no words where there is no schema.

        Args:
            topic: The record's topic.
            key: The key.
            value: The value.
            facets: Those whose ids are mapped, as `schema_mapping.facets_word`.

        Returns:
            None instead of a digest where the registry does not have the schema: it was copied with one that is gone.
            Likewise where the file has no registry any more.

        Raises:
            RegistryUnreachable: The registry does not answer.
        """
        parts: tuple[tuple[Facet, Payload], ...] = (("key", key), ("value", value))
        return [self._schema(topic, facet, payload if facet in facets else None) for facet, payload in parts]

    def _schema(self, topic: str, facet: Facet, payload: Payload) -> SchemaDigest | None:
        from k2k_assets.registry.canonical import SchemaDigest

        if payload is None or not has_schema_id(payload):
            return SchemaDigest("")
        at = topic, facet, payload[:PREFIX]
        if at not in self._digests:
            self._digests[at] = self._digest(topic, facet, id_of(payload[:PREFIX]))
        return self._digests[at]

    def _digest(self, topic: str, facet: Facet, schema_id: int) -> SchemaDigest | None:
        from k2k_assets.registry.canonical import schema_digest

        try:
            if self._registry is None:
                self._registry, self._kept = self._open(), self._open_kept()
            if self._kept is not None:
                return self._kept.digest(self._registry, schema_id, topic, facet)
            return schema_digest(self._registry, schema_id)
        except SchemaNotFound:
            return None


def payloads_of(pipeline: Pipeline, role: ClusterRole) -> Payloads:
    """Those of one side of a pipeline."""

    def open_registry() -> Registry:
        if not pipeline.registry(role).config:  # the file maps no ids any more
            raise SchemaNotFound(f"the file has no {role}.registry")
        # Confluent's client takes a third of a second to be imported.
        from k2k_assets.registry.of_pipeline import open_registry as opened

        return opened(pipeline, role)

    def open_kept() -> KeptSchemas | None:
        if role == "target":
            return None
        from k2k_assets.registry.of_pipeline import open_kept_schemas

        return open_kept_schemas(pipeline)

    return Payloads(open_registry, open_kept)


def words_of(facets: Iterable[str]) -> list[str]:
    """The different ones, without those of records that are compared as they are."""
    return sorted({word for word in facets if word})


def compared_facets(
    routes: Iterable[tuple[str, str]], settings: CopySettings
) -> Mapping[ClusterRole, Mapping[str, str]]:
    """The facets with mapped schema ids of each side's topics, as `facets_word`.

    Of topics that go to one target topic all are compared in one way, whichever of them a record there came from.
    """
    of_target: dict[str, frozenset[Facet]] = {}
    for topic, to in routes:
        of_target[to] = of_target.get(to, frozenset()) | settings.facets(topic)
    return {
        "source": {topic: facets_word(of_target[to]) for topic, to in routes},
        "target": {to: facets_word(facets) for to, facets in of_target.items()},
    }
