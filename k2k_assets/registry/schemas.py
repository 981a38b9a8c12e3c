"""What a schema registry holds, and what can be asked of one: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from k2k_assets.core.errors import ClusterUnreachable, NotAllowed


class Reference(NamedTuple):
    """A schema that another one refers to.

    Attributes:
        name: What the other schema calls it: a type, or an imported file.
        subject: Where it is registered.
        version: As which version.
    """

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema.

    Attributes:
        kind: `AVRO`, `JSON` or `PROTOBUF`.
        text: As the registry gives it.
        references: What it refers to.
        metadata: Tags and properties, as JSON with sorted keys; empty if there are none.
        rules: By which clients validate, encrypt or migrate records, as such JSON. They may go by the tags.
    """

    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: str = ""
    rules: str = ""

    @property
    def contract(self) -> str:
        """What decides beside the text what readers make of a record: rules and the tags they go by; empty if none."""
        return f"{self.rules}{self.metadata}" if self.rules else ""


class SubjectVersion(NamedTuple):
    """One place where a schema is registered."""

    subject: str
    version: int


class RegistryUnreachable(ClusterUnreachable):
    """A registry did not answer, or says that it cannot now."""


class RegistryRefused(NotAllowed):
    """A registry answers, and does not let this client in.

    Args:
        registry: Names it, with its address.
        words: What it said.
        may_pass: Whether it may let the same client in a moment later.
    """

    def __init__(self, registry: str, words: str, may_pass: bool = False) -> None:
        super().__init__(f"{registry} {words}")
        self.registry = registry
        self.words = words
        self.may_pass = may_pass


class SchemaNotFound(Exception):
    """A registry does not hold what was asked for."""


class SchemaOfOthers(Exception):
    """A schema is registered, but only for other topics, or for the other part of records.

    Args:
        subjects: Where.
    """

    def __init__(self, subjects: Sequence[str]) -> None:
        super().__init__(", ".join(subjects))
        self.subjects = subjects


class SchemaRefused(Exception):
    """A registry does not take a schema.

    Args:
        subject: Under which it was to be registered.
        words: What the registry said.
    """

    def __init__(self, subject: str, words: str) -> None:
        super().__init__(f"{subject}: {words}")
        self.subject = subject
        self.words = words


class Registry(Protocol):
    """A schema registry with the API of Confluent's.

    Each call may raise `RegistryUnreachable` or `RegistryRefused`.
    """

    def schema(self, schema_id: int) -> Schema:
        """The schema that an id stands for.

        Raises:
            SchemaNotFound: There is none.
        """
        ...

    def places(self, schema_id: int) -> Sequence[SubjectVersion]:
        """Where it is registered; none if its subjects were deleted."""
        ...

    def versions(self, subject: str) -> Sequence[int]:
        """The versions of a subject, the oldest first; none if there is no such subject."""
        ...

    def version(self, subject: str, version: int) -> Schema:
        """One version of a subject, deleted ones too.

        Raises:
            SchemaNotFound: There is none.
        """
        ...

    def register(self, subject: str, schema: Schema) -> int:
        """Makes sure that a subject has a schema.

        Returns:
            Its id.

        Raises:
            SchemaRefused: The registry does not take it.
        """
        ...

    def id_of(self, subject: str, schema: Schema) -> int:
        """The id under which a subject has a schema; registers nothing.

        Raises:
            SchemaNotFound: It has not.
        """
        ...

    def version_of(self, subject: str, schema: Schema) -> int:
        """As which version a subject has a schema.

        Raises:
            SchemaNotFound: It has not.
        """
        ...
