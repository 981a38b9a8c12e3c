"""What a schema registry holds, and what can be asked of one: pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
        metadata: Tags and properties, as JSON with sorted keys; empty if nothing is said of any. `{}` says that there
            are none: of nothing said, registries make what the version before has.
        rules: By which clients validate, encrypt or migrate records, as such JSON. They may go by the metadata.
    """

    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: str = ""
    rules: str = ""

    @property
    def contract(self) -> frozenset[str]:
        """What decides beside the text what readers make of a record, word by word; empty if there are no rules.

        Each rule, each tag, and the name of each property: a rule may look into one, whose value each side may choose.
        """
        rules = json.loads(self.rules or "{}")
        if not rules:
            return frozenset()
        metadata = json.loads(self.metadata or "{}")
        words: list[tuple[str, str, object]] = [(kind, "", rule) for kind, some in rules.items() for rule in some]
        words += [("tag", path, tag) for path, tags in metadata.get("tags", {}).items() for tag in tags]
        words += [("property", name, "") for name in metadata.get("properties", {})]
        return frozenset(json.dumps(word, sort_keys=True) for word in words)

    @property
    def bare(self) -> Schema:
        """The same without a word of metadata and rules."""
        return replace(self, metadata="", rules="")


class SubjectVersion(NamedTuple):
    """One place where a schema is registered."""

    subject: str
    version: int


class RegistryUnreachable(ClusterUnreachable):
    """A registry did not answer, or says that it cannot now."""


class MoreToRegister(RegistryUnreachable):
    """Not all that has to be registered could be within one round: there is progress, and the next one goes on."""


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

    def places(self, schema_id: int, deleted: bool = False) -> Sequence[SubjectVersion]:
        """Where it is registered; none if its subjects were deleted, unless these are wanted too."""
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
