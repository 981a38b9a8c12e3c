"""Ids of the source's registry as ids of the target's: the same schema, registered there if it is not yet."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from k2k_assets.core.deadline import Deadline
from k2k_assets.pipeline.sections.schema_mapping import Facet
from k2k_assets.registry.contexts import subject_in
from k2k_assets.registry.registry_patience import RegistryPatience
from k2k_assets.registry.schemas import (
    MoreToRegister,
    Reference,
    Registry,
    RegistryUnreachable,
    Schema,
    SchemaNotFound,
    SchemaOfOthers,
    SchemaRefused,
    SubjectVersion,
)
from k2k_assets.registry.subjects import best_place, may_be_of, target_subject

log = logging.getLogger("k2k.registry")

T = TypeVar("T")

# Other topics of the slot wait meanwhile.
_SECONDS = 5.0
# Of several nodes of a registry, those that follow know a new schema some moments later.
_PAUSES_UNTIL_KNOWN = (0.05, 0.2, 0.5)


@dataclass(frozen=True, slots=True)
class TopicFacet:
    """What ids are of.

    Attributes:
        source_topic: The source topic.
        target_topic: Where its records go.
        facet: The part of its records.
        is_certain: Whether a rule says that they have schemas. Else what looks like an id may be something else.
    """

    source_topic: str
    target_topic: str
    facet: Facet
    is_certain: bool = True


class SchemaIds:
    """Finds the target's id for each id of the source; its caller does not ask for one again.

    It outlives the sessions of a slot: a subject with many versions is gone on with after an error.

    Args:
        source: The source's registry.
        target: The target's registry.
        kinds: Of schemas that are mapped.
        clock: Seconds that only rise.

    Attributes:
        while_waiting: Called before each request: there may be many, and each may take seconds.
    """

    def __init__(
        self,
        source: Registry,
        target: Registry,
        kinds: Collection[str] = ("AVRO", "JSON", "PROTOBUF"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._patience = RegistryPatience(clock)
        self._kinds = kinds
        self.while_waiting: Callable[[], None] = lambda: None
        self._source = _Announced(source, self._announce)
        self._target = _Announced(target, self._announce)
        self._registered: set[tuple[str, int, str]] = set()
        # What is found of references, each of which may take many requests: of the schema that is at work, and of those
        # that take another round.
        self._references: dict[Reference, Reference] = {}
        self._unfinished: dict[int, dict[Reference, Reference]] = {}
        self._deadline = Deadline(_SECONDS)
        self._has_done_some = False

    def target_id(self, schema_id: int, place: TopicFacet) -> int:
        """The target's id of the schema that the source's registry has under an id.

        Earlier versions of its subject are registered before it: compatible with what came before is what it was on
        the source, and would be refused where a later one is known already.

        Args:
            schema_id: Id of the source.
            place: Whose.

        Raises:
            SchemaNotFound: The source's registry does not have it.
            SchemaOfOthers: It has it, but not for these keys or values, and nobody says that they have schemas.
            SchemaRefused: The target's registry does not take it, or no schemas of its kind are mapped.
            RegistryUnreachable: A registry does not answer, or does not let this client in for now, or all that has to
                be registered takes too long at once.
            RegistryRefused: A registry does not let this client in, for long (`RegistryPatience`).
        """
        return self._patience.ask(lambda: self._in_rounds(schema_id, place))

    def _announce(self) -> None:
        self.while_waiting()

    def _in_rounds(self, schema_id: int, place: TopicFacet) -> int:
        """A round: what it has found of references is kept for the next one, whatever breaks it off."""
        self._references = self._unfinished.pop(schema_id, {})
        try:
            return self._target_id(schema_id, place)
        except (SchemaNotFound, SchemaOfOthers, SchemaRefused):
            raise
        except Exception:
            self._unfinished[schema_id] = self._references
            raise

    def _target_id(self, schema_id: int, place: TopicFacet) -> int:
        self._deadline, self._has_done_some = Deadline(_SECONDS), False
        schema = _once_there(lambda: self._source.schema(schema_id))
        places = self._places_on_source(schema_id, place)
        at = best_place(places, place.source_topic, place.facet)
        if not place.is_certain and not may_be_of(places, place.source_topic, place.facet):
            raise SchemaOfOthers(sorted({each.subject for each in places}))
        subject = target_subject(at, place.source_topic, place.target_topic, place.facet)
        if schema.kind not in self._kinds:
            raise SchemaRefused(subject, f"{schema.kind} is not among schemaMapping.supportedTypes")
        if at is not None:
            self._register_earlier(at.subject, at.version, subject)
        target_id, _ = self._register(subject, self._with_target_references(schema))
        log.info(
            "%s of %s: schema %d of the source is %d on the target, subject %s",
            place.facet,
            place.source_topic,
            schema_id,
            target_id,
            subject,
        )
        return target_id

    def _places_on_source(self, schema_id: int, place: TopicFacet) -> Sequence[SubjectVersion]:
        """Where a schema is registered; asked again while that is for others only: it may just have been, here too."""
        found: Sequence[SubjectVersion] = []

        def own() -> None:
            nonlocal found
            found = self._source.places(schema_id)
            if not found or not may_be_of(found, place.source_topic, place.facet):
                raise SchemaNotFound(f"schema {schema_id} has no subject of {place.source_topic}")

        with suppress(SchemaNotFound):
            _once_there(own)
        return found

    def _register(self, subject: str, schema: Schema) -> tuple[int, Schema]:
        """Registers a schema, and looks whether the target keeps its metadata and rules: not every registry does.

        Returns:
            The target's id, and what was registered: without metadata, where the target takes none and no rule goes
            by them.
        """
        if schema == schema.bare:
            return self._target.register(subject, schema), schema
        try:
            target_id = self._target.register(subject, schema)
        except SchemaRefused as refused:
            if schema.contract:
                raise
            target_id = self._target.register(subject, schema.bare)
            log.warning("subject %s: schema %d is used without its metadata: %s", subject, target_id, refused.words)
            return target_id, schema.bare
        kept = self._once_known(lambda: self._target.schema(target_id))
        if not schema.contract <= kept.contract:
            raise SchemaRefused(subject, f"it is kept as schema {target_id} with other rules or metadata, or none")
        if kept.contract and not schema.contract:
            log.warning("subject %s: the target gives schema %d rules of its own", subject, target_id)
        if (schema.metadata or "{}") != (kept.metadata or "{}"):
            log.warning("subject %s: the target keeps schema %d with other metadata, or none", subject, target_id)
        return target_id, schema

    def _once_known(self, ask: Callable[[], T]) -> T:
        """Asks the target for what was just registered there.

        Raises:
            RegistryUnreachable: It does not know it yet.
        """
        try:
            return _once_there(ask)
        except SchemaNotFound as error:
            raise RegistryUnreachable(f"{error}. It was registered there a moment ago: it is asked for again") from None

    def _register_earlier(self, source_subject: str, version: int, subject: str) -> None:
        for number in self._source.versions(source_subject):
            if number >= version or (source_subject, number, subject) in self._registered:
                continue
            self._ensure_time(source_subject, number)
            try:
                schema = self._with_target_references(self._source.version(source_subject, number))
                self._register(subject, schema)
            except (SchemaRefused, SchemaNotFound) as error:
                # Nobody may ever need it; whoever does is told then.
                log.warning("version %d of subject %s is not on the target: %s", number, source_subject, error)
            self._registered.add((source_subject, number, subject))
            self._has_done_some = True

    def _ensure_time(self, subject: str, version: int) -> None:
        if self._deadline.expired() and self._has_done_some:
            raise MoreToRegister(
                f"registering the versions of subject {subject} on the target takes more than {_SECONDS:g} s; it goes "
                f"on with version {version}"
            )

    def _with_target_references(self, schema: Schema) -> Schema:
        references = tuple(self._reference(reference) for reference in schema.references)
        return replace(schema, references=references)

    def _reference(self, reference: Reference) -> Reference:
        """What a schema refers to is registered first, under its own subject."""
        if reference in self._references:
            return self._references[reference]
        self._ensure_time(reference.subject, reference.version)
        if subject_in("", reference.subject) is None:
            log.warning("subject %s, which schemas refer to, gets a context on the target as well", reference.subject)
        found = _once_there(lambda: self._source.version(reference.subject, reference.version))
        schema = self._with_target_references(found)
        self._register_earlier(reference.subject, reference.version, reference.subject)
        target_id, registered = self._register(reference.subject, schema)
        version = self._once_known(lambda: self._version_of(target_id, reference.subject, registered))
        own = self._references[reference] = reference._replace(version=version)
        self._has_done_some = True
        return own

    def _version_of(self, target_id: int, subject: str, schema: Schema) -> int:
        """The newest version of a subject that has an id, which the target gave for a schema.

        By the id, because the target may keep the schema with more metadata and rules than it was given, and then does
        not find what was given.

        Raises:
            SchemaNotFound: The target does not know it yet.
        """
        versions = [at.version for at in self._target.places(target_id) if at.subject == subject]
        return max(versions) if versions else self._target.version_of(subject, schema)


def _once_there(ask: Callable[[], T]) -> T:
    """Asks a registry, and asks again what it does not know: whoever wrote the record may have asked another node.

    Raises:
        SchemaNotFound: It still does not know it.
    """
    for pause in _PAUSES_UNTIL_KNOWN:
        try:
            return ask()
        except SchemaNotFound:
            time.sleep(pause)
    return ask()


class _Announced:
    """A registry each of whose requests is told of before.

    Args:
        registry: The registry.
        announce: Called before each request.
    """

    def __init__(self, registry: Registry, announce: Callable[[], None]) -> None:
        self._registry = registry
        self._announce = announce

    def schema(self, schema_id: int) -> Schema:
        self._announce()
        return self._registry.schema(schema_id)

    def places(self, schema_id: int, deleted: bool = False) -> Sequence[SubjectVersion]:
        self._announce()
        return self._registry.places(schema_id, deleted)

    def versions(self, subject: str) -> Sequence[int]:
        self._announce()
        return self._registry.versions(subject)

    def version(self, subject: str, version: int) -> Schema:
        self._announce()
        return self._registry.version(subject, version)

    def register(self, subject: str, schema: Schema) -> int:
        self._announce()
        return self._registry.register(subject, schema)

    def id_of(self, subject: str, schema: Schema) -> int:
        self._announce()
        return self._registry.id_of(subject, schema)

    def version_of(self, subject: str, schema: Schema) -> int:
        self._announce()
        return self._registry.version_of(subject, schema)
