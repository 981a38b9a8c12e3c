"""The schema mapping stage: the schema id in a key or value becomes the target registry's id of the same schema.

```
  source   00 00000007 ...payload...        the five bytes before the payload, as Confluent's serializers write them
  target   00 0000002a ...payload...        payload, and Protobuf's message indexes before it, stay as they are
```

An id is looked up once a topic. Then a record costs a look into a dictionary and a copy of its bytes; or less in whole
batches, in which the ids are replaced where they lie. What has no such bytes before it, and null, stays as it is, or
stops the topic where a rule refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.stops.reasons.schemas import (
    RegistryLoginRefused,
    SchemaIdMissing,
    SchemaNotOnSource,
    SchemaOfOtherTopic,
    SchemaRefusedByTarget,
)
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline.sections.schema_mapping import Facet, RefusedPayloads
from k2k_assets.registry.framing import PREFIX, has_schema_id, id_of, prefix_of
from k2k_assets.registry.schema_ids import SchemaIds, TopicFacet
from k2k_assets.registry.schemas import (
    RegistryRefused,
    RegistryUnreachable,
    SchemaNotFound,
    SchemaOfOthers,
    SchemaRefused,
)
from k2k_assets.transport.chunk import Chunk, WithPlaces
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
        refusals: What stops a source topic for want of a schema id.

    Attributes:
        ids: See the argument.
    """

    def __init__(
        self,
        ids: SchemaIds,
        facets: Callable[[str], Mapping[Facet, bool]],
        target_topic: Callable[[str], str],
        refusals: Callable[[str], RefusedPayloads] = lambda _topic: RefusedPayloads(),
    ) -> None:
        self.ids = ids
        self._facets = facets
        self._target_topic = target_topic
        self._refusals = refusals
        self._topics: dict[str, dict[Facet, _Prefixes]] = {}

    def call_while_working(self, call: Callable[[], None]) -> None:
        """As of `LongStage`: it is called before each request."""
        self.ids.while_waiting = call

    def __call__(self, chunk: Chunk) -> Chunk:
        """Maps the ids of a chunk, up to the first that has none on the target, or that nobody can tell for now.

        Raises:
            RegistryUnreachable: A registry does not answer, and the first record needs it.
        """
        prefixes = self._prefixes(chunk.source.topic)
        if not prefixes or _mapped_in_place(chunk, prefixes):
            return chunk
        columns = chunk.columns()
        keys, values = columns.keys(), columns.values()
        end = len(columns)
        fault: StopReason | None = None
        awaited: RegistryUnreachable | None = None
        new: dict[Facet, Payloads] = {}
        parts: tuple[tuple[Facet, Payloads], ...] = (("key", keys), ("value", values))
        for facet, before in parts:
            while facet in prefixes and facet not in new:
                try:
                    new[facet] = prefixes[facet].mapped(before[:end])
                except _AtFault as found:  # what lies before it is mapped in the next round
                    end = found.index_in(before)
                    fault, awaited = found.reason(chunk.source, columns.offsets()[end], facet), found.awaited
        if awaited and not end:
            raise awaited
        if fault or awaited:
            chunk.cut(end, fault, awaited)
        chunk.records = RewrittenColumns(chunk.columns(), new.get("key", keys)[:end], new.get("value", values)[:end])
        return chunk

    def _prefixes(self, topic: str) -> dict[Facet, _Prefixes]:
        known = self._topics.get(topic)
        if known is None:
            target, refusals = self._target_topic(topic), self._refusals(topic)
            known = {
                facet: _Prefixes(self.ids, TopicFacet(topic, target, facet, is_certain), refusals)
                for facet, is_certain in self._facets(topic).items()
            }
            self._topics[topic] = known
        return known


def _mapped_in_place(chunk: Chunk, prefixes: Mapping[Facet, _Prefixes]) -> bool:
    """Maps all ids of records that nobody has decoded; False if they have to be decoded, to see which is at fault."""
    if not isinstance(chunk.records, WithPlaces):
        return False
    try:
        changed = chunk.records.with_prefixes(PREFIX, {facet: each.start for facet, each in prefixes.items()})
    except _AtFault:
        return False
    if changed is None:
        return False
    chunk.records = changed
    return True


class _AtFault(Exception):
    """A payload stops its topic, or nobody can tell its id for now.

    Args:
        start: Its first bytes; None if it is null.
        error: Why its id has none on the target; None if it has no id at all, and a rule refuses that.

    Attributes:
        awaited: What does not answer; None if it stops its topic.
    """

    def __init__(
        self,
        start: bytes | None,
        error: SchemaNotFound | SchemaOfOthers | SchemaRefused | RegistryRefused | RegistryUnreachable | None = None,
    ) -> None:
        super().__init__(start, error)
        self._start = start
        self._error = error
        self.awaited = error if isinstance(error, RegistryUnreachable) else None

    def index_in(self, payloads: Payloads) -> int:
        """Where the first such payload is."""
        return next(i for i, payload in enumerate(payloads) if _start(payload) == self._start)

    def reason(self, source: TopicPartition, offset: int, facet: Facet) -> StopReason | None:
        """Why the topic is stopped at a record; None: it is waited for."""
        if self._start is None or self._error is None:
            return SchemaIdMissing(source, offset, facet, "nulls" if self._start is None else "unframed")
        schema_id = id_of(self._start)
        match self._error:
            case RegistryUnreachable():
                return None
            case RegistryRefused(registry=registry, words=said):
                return RegistryLoginRefused(source, offset, registry, said)
            case SchemaRefused(subject=subject, words=words):
                return SchemaRefusedByTarget(source, offset, facet, schema_id, subject, words)
            case SchemaOfOthers(subjects=subjects):
                return SchemaOfOtherTopic(source, offset, facet, schema_id, ", ".join(subjects))
            case error:
                return SchemaNotOnSource(source, offset, facet, schema_id, str(error))


def _start(payload: bytes | None) -> bytes | None:
    return None if payload is None else payload[:PREFIX]


class _Prefixes(dict[bytes, bytes]):
    """The first bytes of a payload on the source, and what they are on the target."""

    def __init__(self, ids: SchemaIds, place: TopicFacet, refusals: RefusedPayloads) -> None:
        super().__init__()
        self._ids = ids
        self._place = place
        self._refusals = refusals

    def start(self, start: bytes | None) -> bytes | None:
        """The first bytes of one payload, or None for null, with the target's id.

        Raises:
            _AtFault: It stops the topic.
        """
        if start is None:
            if self._refusals.nulls:
                raise _AtFault(None)
            return None
        return self[start]

    def mapped(self, payloads: Payloads) -> list[bytes | None]:
        """The payloads with the target's ids.

        Raises:
            _AtFault: One of them stops the topic; others before it may, too.
        """
        if self._refusals.nulls and None in payloads:
            raise _AtFault(None)
        # Replacing copies a payload once, slicing and adding would do it twice.
        return [
            None if payload is None else payload.replace(prefix := payload[:PREFIX], self[prefix], 1)
            for payload in payloads
        ]

    def __missing__(self, prefix: bytes) -> bytes:
        if not has_schema_id(prefix):
            if self._refusals.unframed:
                raise _AtFault(prefix)
            return prefix
        try:
            target_id = self._ids.target_id(id_of(prefix), self._place)
        except (SchemaNotFound, SchemaOfOthers, SchemaRefused, RegistryRefused, RegistryUnreachable) as error:
            raise _AtFault(prefix, error) from None
        if len(self) >= _MOST_IDS:
            self.clear()
        mapped = self[prefix] = prefix_of(target_id)
        return mapped
