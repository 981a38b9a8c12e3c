"""The schema mapping stage: the schema id in a key or value becomes the target registry's id of the same schema.

```
  source   00 00000007 ...payload...        the five bytes before the payload, as Confluent's serializers write them
  target   00 0000002a ...payload...        payload, and Protobuf's message indexes before it, stay as they are
```

An id is looked up once a topic; then a record costs a look into a dictionary and a copy of its bytes. What has no such
bytes before it, and null, stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.stops.reasons.schemas import (
    RegistryLoginRefused,
    SchemaNotOnSource,
    SchemaOfOtherTopic,
    SchemaRefusedByTarget,
)
from k2k_assets.pipeline.sections.schema_mapping import Facet
from k2k_assets.registry.framing import PREFIX, has_schema_id, id_of, prefix_of
from k2k_assets.registry.schema_ids import SchemaIds, TopicFacet
from k2k_assets.registry.schemas import RegistryRefused, SchemaNotFound, SchemaOfOthers, SchemaRefused
from k2k_assets.transport.chunk import Chunk, Columns
from k2k_assets.transport.rewritten import RewrittenColumns

Payloads = Sequence[bytes | None]

# A topic has some ids; a thousand are none of one topic, but bytes that only look like ids.
_MOST_IDS = 1000


class SchemaMapper:
    """The stage.

    Args:
        ids: Finds the target's ids.
        facets: Which parts of the records of a source topic have schema ids, and whether a rule says so.
        target_topic: Where the records of a source topic go.
    """

    def __init__(
        self, ids: SchemaIds, facets: Callable[[str], Mapping[Facet, bool]], target_topic: Callable[[str], str]
    ) -> None:
        self._ids = ids
        self._facets = facets
        self._target_topic = target_topic
        self._topics: dict[str, dict[Facet, _Prefixes]] = {}

    def __call__(self, chunk: Chunk) -> Chunk:
        """Maps the ids of a chunk.

        Raises:
            RegistryUnreachable: A registry does not answer.
        """
        prefixes = self._prefixes(chunk.source.topic)
        if not prefixes:
            return chunk
        columns = chunk.columns()
        keys, values = columns.keys(), columns.values()
        end, fault = len(columns), None
        new: dict[Facet, Payloads] = {}
        parts: tuple[tuple[Facet, Payloads], ...] = (("key", keys), ("value", values))
        for facet, before in parts:
            if facet not in prefixes:
                continue
            try:
                new[facet] = prefixes[facet].mapped(before[:end])
            except _NoTargetId as found:
                end = next(i for i, payload in enumerate(before) if payload and payload[:PREFIX] == found.prefix)
                fault = found.reason(chunk, columns, end, facet)
                new[facet] = prefixes[facet].mapped(before[:end])
        if fault:
            chunk.cut(end, fault)
        chunk.records = RewrittenColumns(chunk.columns(), new.get("key", keys)[:end], new.get("value", values)[:end])
        chunk.rewritten = True
        return chunk

    def _prefixes(self, topic: str) -> dict[Facet, _Prefixes]:
        known = self._topics.get(topic)
        if known is None:
            target = self._target_topic(topic)
            known = {
                facet: _Prefixes(self._ids, TopicFacet(topic, target, facet, is_certain))
                for facet, is_certain in self._facets(topic).items()
            }
            self._topics[topic] = known
        return known


class _NoTargetId(Exception):
    """An id of the source has none on the target."""

    def __init__(self, prefix: bytes, error: SchemaNotFound | SchemaOfOthers | SchemaRefused | RegistryRefused) -> None:
        super().__init__(str(error))
        self.prefix = prefix
        self.error = error

    def reason(self, chunk: Chunk, columns: Columns, index: int, facet: Facet) -> StopReason:
        """Why the topic is stopped at a record."""
        offset, schema_id = columns.offsets()[index], id_of(self.prefix)
        match self.error:
            case RegistryRefused(registry=registry, words=said):
                return RegistryLoginRefused(chunk.source, offset, registry, said)
            case SchemaRefused(subject=subject, words=words):
                return SchemaRefusedByTarget(chunk.source, offset, facet, schema_id, subject, words)
            case SchemaOfOthers(subjects=subjects):
                return SchemaOfOtherTopic(chunk.source, offset, facet, schema_id, ", ".join(subjects))
            case error:
                return SchemaNotOnSource(chunk.source, offset, facet, schema_id, str(error))


class _Prefixes(dict[bytes, bytes]):
    """The first bytes of a payload on the source, and what they are on the target."""

    def __init__(self, ids: SchemaIds, place: TopicFacet) -> None:
        super().__init__()
        self._ids = ids
        self._place = place

    def mapped(self, payloads: Payloads) -> list[bytes | None]:
        """The payloads with the target's ids."""
        # Replacing copies a payload once, slicing and adding would do it twice.
        return [
            None if payload is None else payload.replace(prefix := payload[:PREFIX], self[prefix], 1)
            for payload in payloads
        ]

    def __missing__(self, prefix: bytes) -> bytes:
        if not has_schema_id(prefix):
            return prefix
        try:
            target_id = self._ids.target_id(id_of(prefix), self._place)
        except (SchemaNotFound, SchemaOfOthers, SchemaRefused, RegistryRefused) as error:
            raise _NoTargetId(prefix, error) from None
        if len(self) >= _MOST_IDS:
            self.clear()
        mapped = self[prefix] = prefix_of(target_id)
        return mapped
