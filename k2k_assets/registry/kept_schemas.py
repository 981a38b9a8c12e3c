"""The digest of a source's schema as a target keeps it that normalizes: with another text, which means the same.

The target says itself under which id it has the source's text; what it has under that id is compared with the copy's.
Nothing is registered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from k2k_assets.pipeline.sections.schema_mapping import Facet
from k2k_assets.registry.canonical import SchemaDigest, schema_digest
from k2k_assets.registry.schemas import Registry, Schema, SchemaNotFound, SubjectVersion
from k2k_assets.registry.subjects import target_subject


class KeptSchemas:
    """A target's registry that normalizes.

    Args:
        target: The registry.
        target_topic: The target topic of a source topic; None if it has none.
    """

    def __init__(self, target: Registry, target_topic: Callable[[str], str | None]) -> None:
        self._target = target
        self._target_topic = target_topic

    def digest(self, source: Registry, schema_id: int, topic: str, facet: Facet) -> SchemaDigest:
        """As `schema_digest`, but of the text that the target has for a schema, if it has one.

        Args:
            source: The source's registry.
            schema_id: Its id there.
            topic: The source topic of a record with it.
            facet: The part of the record.

        Raises:
            SchemaNotFound: The source's registry does not have it.
            RegistryUnreachable: A registry does not answer.
        """
        own, schema = schema_digest(source, schema_id), source.schema(schema_id)
        for subject in self._subjects(source.places(schema_id, deleted=True), topic, facet):
            try:
                kept = _looked_up(self._target.id_of, subject, self._with_target_references(source, schema))
                return own._replace(text=schema_digest(self._target, kept).text)
            except SchemaNotFound:
                continue
        return own

    def _subjects(self, places: Sequence[SubjectVersion], topic: str, facet: Facet) -> Iterable[str]:
        """Where the target may have it: it was copied when the source had it at all of these places, some, or none."""
        if (target := self._target_topic(topic)) is None:
            return ()
        return dict.fromkeys(target_subject(place, topic, target, facet) for place in (*places, None))

    def _with_target_references(self, source: Registry, schema: Schema) -> Schema:
        references = tuple(
            each._replace(
                version=_looked_up(
                    self._target.version_of,
                    each.subject,
                    self._with_target_references(source, source.version(each.subject, each.version)),
                )
            )
            for each in schema.references
        )
        return replace(schema, references=references)


def _looked_up(look_up: Callable[[str, Schema], int], subject: str, schema: Schema) -> int:
    """As the target has it: with metadata and rules, else without them."""
    try:
        return look_up(subject, schema)
    except SchemaNotFound:
        if schema == schema.bare:
            raise
    return look_up(subject, schema.bare)
