"""A schema registry in memory, for tests of the requests to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from k2k_assets.registry.schemas import Schema, SchemaNotFound, SchemaRefused, SubjectVersion


class RegistryInMemory:
    """Ids go by content, as in Confluent's registry.

    Args:
        first_id: Of the first schema.
        takes: Whether a subject takes a schema.
        normal: What becomes of a schema that is registered or looked up.

    Attributes:
        subjects: The versions of each.
        deleted: Subjects that were deleted, softly: ids still lead to their schemas.
        asked: How often it was asked for a schema.
    """

    def __init__(
        self,
        first_id: int,
        takes: Callable[[str, Schema], bool] = lambda subject, schema: True,
        normal: Callable[[Schema], Schema] = lambda schema: schema,
    ) -> None:
        self._normal = normal
        self._next_id = first_id
        self._takes = takes
        self._ids: dict[Schema, int] = {}
        self.subjects: dict[str, list[Schema]] = {}
        self.deleted: set[str] = set()
        self.asked = 0

    def schema(self, schema_id: int) -> Schema:
        self.asked += 1
        for schema, known in self._ids.items():
            if known == schema_id:
                return schema
        raise SchemaNotFound(f"Schema {schema_id} not found (error code 40403)")

    def places(self, schema_id: int, deleted: bool = False) -> Sequence[SubjectVersion]:
        schema = self.schema(schema_id)
        return sorted(
            SubjectVersion(subject, versions.index(schema) + 1)
            for subject, versions in self.subjects.items()
            if schema in versions and (deleted or subject not in self.deleted)
        )

    def versions(self, subject: str) -> Sequence[int]:
        return range(1, len(self.subjects.get(subject, [])) + 1)

    def version(self, subject: str, version: int) -> Schema:
        if version not in self.versions(subject):
            raise SchemaNotFound(f"version {version} of subject {subject}")
        return self.subjects[subject][version - 1]

    def register(self, subject: str, schema: Schema) -> int:
        schema = self._normal(schema)
        versions = self.subjects.setdefault(subject, [])
        if schema not in versions:
            if not self._takes(subject, schema):
                raise SchemaRefused(subject, "Schema being registered is incompatible (error code 409)")
            versions.append(schema)
        if schema not in self._ids:
            self._ids[schema] = self._next_id
            self._next_id += 1
        return self._ids[schema]

    def id_of(self, subject: str, schema: Schema) -> int:
        self.version_of(subject, schema)
        return self._ids[self._normal(schema)]

    def version_of(self, subject: str, schema: Schema) -> int:
        schema = self._normal(schema)
        versions = self.subjects.get(subject, [])
        if schema not in versions:
            raise SchemaNotFound(f"a schema of subject {subject}")
        return versions.index(schema) + 1
