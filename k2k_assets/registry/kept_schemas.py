"""The digest of a source's schema as a target keeps it that normalizes: with another text, which means the same.

The target says itself under which id it has the source's text; what it has under that id is compared with the copy's.
Nothing is registered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from k2k_assets.registry.canonical import SchemaDigest, schema_digest
from k2k_assets.registry.schemas import Registry, Schema, SchemaNotFound, SubjectVersion


class KeptSchemas:
    """A target's registry that normalizes.

    Args:
        target: The registry.
        target_topic: The target topic of a source topic; None if it has none.
    """

    def __init__(self, target: Registry, target_topic: Callable[[str], str | None]) -> None:
        self._target = target
        self._target_topic = target_topic

    def digest(self, source: Registry, schema_id: int) -> SchemaDigest:
        """As `schema_digest`, but of the text that the target has for a schema, if it has one.

        Args:
            source: The source's registry.
            schema_id: Its id there.

        Raises:
            SchemaNotFound: The source's registry does not have it.
            RegistryUnreachable: A registry does not answer.
        """
        own, schema = schema_digest(source, schema_id), source.schema(schema_id)
        for subject in self._subjects(source.places(schema_id)):
            try:
                kept = _looked_up(self._target.id_of, subject, self._with_target_references(source, schema))
                return own._replace(text=schema_digest(self._target, kept).text)
            except SchemaNotFound:
                continue
        return own

    def _subjects(self, places: Iterable[SubjectVersion]) -> Iterator[str]:
        """Where the target may have it: `orders-value` and `orders-shop.Order` are under its topic's name there."""
        for subject, _ in places:
            for at in (at for at, letter in enumerate(subject) if letter == "-"):
                if topic := self._target_topic(subject[:at]):
                    yield f"{topic}{subject[at:]}"
            yield subject

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
