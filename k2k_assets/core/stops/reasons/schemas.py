"""A record whose schema the registries do not know, or do not take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from k2k_assets.core.stops.commands import set_command
from k2k_assets.core.stops.reason import ORDERS, StopReason
from k2k_assets.core.topic_partition import TopicPartition

_LAST_RULE = (
    "The first rule that matches a topic counts, and topics that none matches have no schemas: where there were no "
    "rules, add {pattern: '.*', key: auto, value: auto} as the last one"
)
_LAST_RULE_ON_A_PAGE = _LAST_RULE.replace("{", "`{").replace("}", "}`")


def _rule(topic: str, facet: str, has: str) -> str:
    """A rule of `schemaMapping.topics` that changes what one facet of a topic counts for, and nothing else."""
    facets = {"key": "auto", "value": "auto", facet: has}
    pattern = topic.replace(".", r"\.")
    return f"{{pattern: '{pattern}', {', '.join(f'{name}: {says}' for name, says in facets.items())}}}"


@dataclass(frozen=True)
class SchemaNotOnSource(StopReason, code="schema-not-found"):
    """The source's registry does not have the schema of a record.

    Attributes:
        source: The source partition.
        offset: Of the record.
        facet: `key` or `value`.
        schema_id: The id that it has before its payload.
        words: What the registry said.
    """

    title = "the source's schema registry does not have the schema of a record"
    meaning = (
        "The record begins as if a schema registry's serializer had written it, and nobody knows the schema. It was "
        "deleted for good, the registry is another one, or the bytes are something else: a long integer as a key."
    )
    advice = (
        "If the topic's keys, or values, have no schemas: a rule in `schemaMapping.topics` says so, for example "
        f"`{_rule('orders', 'key', 'disabled')}`. {_LAST_RULE_ON_A_PAGE}. Else bring the "
        "schema back; copying goes on from that record."
    )

    source: TopicPartition
    offset: int
    facet: str
    schema_id: int
    words: str

    def found(self) -> str:
        return (
            f"the {self.facet} of the record at {self.source} offset {self.offset} has schema id {self.schema_id}, "
            f"which the source's registry does not know ({self.words})"
        )

    def to_do(self) -> str:
        return (
            f"If the {self.facet}s of {self.source.topic} are not written with a schema registry, say so in "
            f"schemaMapping.topics: {_rule(self.source.topic, self.facet, 'disabled')}. {_LAST_RULE}. Nothing was "
            "skipped, copying goes on from this record"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(ORDERS, 42, "value", 7, "Schema 7 not found (error code 40403)")


@dataclass(frozen=True)
class RegistryLoginRefused(StopReason, code="registry-login-refused"):
    """A schema registry does not let the pipeline in.

    Attributes:
        source: The source partition.
        offset: Of the record whose schema was asked for.
        registry: Names the registry, with its address.
        words: What it said.
    """

    title = "a schema registry does not let the pipeline in"
    meaning = (
        "It answers, but refuses the user, the password, the token or the certificate; or its own certificate is not "
        "trusted. A refused login or request (401, 403) is tried four times more in half a minute: registries refuse "
        "who is right while what they ask restarts. Tried more often, the user could be locked out. All before the "
        "record is copied, and nothing was skipped."
    )
    advice = (
        "`k2k validate --connect` tells whether it is put right; then start again. Copying goes on from that record."
    )

    source: TopicPartition
    offset: int
    registry: str
    words: str

    def found(self) -> str:
        return (
            f"{self.registry}, asked for the schema of the record at {self.source} offset {self.offset}, {self.words}"
        )

    def to_do(self) -> str:
        return "Correct registry.config of that cluster in the pipeline file, and start again"

    @classmethod
    def example(cls) -> Self:
        words = "refuses the login: 401 Unauthorized"
        return cls(ORDERS, 42, "the target's schema registry at https://registry.example.com", words)


@dataclass(frozen=True)
class SchemaOfOtherTopic(StopReason, code="schema-of-other-topic"):
    """The schema of a record is registered only for other topics, or for the other part of records.

    Attributes:
        source: The source partition.
        offset: Of the record.
        facet: `key` or `value`.
        schema_id: The id that it has before its payload.
        subjects: Where the schema is registered; empty: nowhere any more.
    """

    title = "the schema of a record is not registered for its topic's keys, or values"
    meaning = (
        "It is one of other topics, or of the topic's values where a key begins with its id. The bytes may be "
        "something else that begins like a schema id: a long integer as a key. With another id it would be another "
        "number, so nothing is guessed. A subject that names no topic (`shop.Order`, RecordNameStrategy) or no part of "
        "records (`orders-shop.Order`) counts for values, not for keys."
    )
    advice = (
        "A rule in `schemaMapping.topics` that names the topic says what they are, `enabled` or `disabled`. "
        f"{_LAST_RULE_ON_A_PAGE}."
    )

    source: TopicPartition
    offset: int
    facet: str
    schema_id: int
    subjects: str

    def found(self) -> str:
        return (
            f"the {self.facet} of the record at {self.source} offset {self.offset} seems to have schema id "
            f"{self.schema_id}, which the source's registry does not have for the {self.facet}s of this topic, but "
            f"under {self.subjects or 'no subject any more'}"
        )

    def to_do(self) -> str:
        return (
            f"Say in schemaMapping.topics whether the {self.facet}s of {self.source.topic} are written with a schema "
            f"registry: {_rule(self.source.topic, self.facet, 'enabled')}, or {self.facet}: disabled. {_LAST_RULE}. "
            "Nothing was skipped, copying goes on from this record"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(ORDERS, 42, "key", 1, "payments-value")


@dataclass(frozen=True)
class SchemaRefusedByTarget(StopReason, code="schema-refused"):
    """The target's registry does not take the schema of a record.

    Attributes:
        source: The source partition.
        offset: Of the record.
        facet: `key` or `value`.
        schema_id: The id of its schema on the source.
        subject: Where it was to be registered.
        words: What the registry said.
    """

    title = "the target's schema registry does not take a schema"
    meaning = (
        "Most often it is not compatible with what the subject holds there already, or the principal may not register "
        "schemas; or the registry takes its text and does not keep its rules. All before the record is copied, and "
        "nothing was skipped."
    )
    advice = "Register it by hand, or change the compatibility of the subject, and start again."

    source: TopicPartition
    offset: int
    facet: str
    schema_id: int
    subject: str
    words: str

    def found(self) -> str:
        return (
            f"the target's registry does not take schema {self.schema_id} of the {self.facet} of the record at "
            f"{self.source} offset {self.offset} under subject {self.subject}: {self.words}"
        )

    def to_do(self) -> str:
        return (
            f"Change the compatibility of subject {self.subject} on the target, or register the schema by hand; "
            "nothing was skipped, copying goes on from this record"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(ORDERS, 42, "value", 7, "copy.orders-value", "Schema being registered is incompatible (409)")


@dataclass(frozen=True)
class SchemaIdMissing(StopReason, code="schema-id-missing"):
    """A key or value has no schema id, and a rule refuses that.

    Attributes:
        source: The source partition.
        offset: Of the record.
        facet: `key` or `value`.
        refused: What the rule refuses: `unframed` or `nulls`.
    """

    title = "a key or value has no schema id, and a rule refuses that"
    meaning = (
        "A rule in `schemaMapping.topics` says `unframed: refused` or `nulls: refused`, and a record came that was not "
        "written with a schema registry, or is null. All before it is copied, and nothing was skipped."
    )
    advice = (
        "Correct who writes such records. `untouched` instead of `refused` copies the record as it is; the command "
        "goes on behind it, without it."
    )

    source: TopicPartition
    offset: int
    facet: str
    refused: str

    def found(self) -> str:
        what = "is null" if self.refused == "nulls" else "does not begin with a schema id"
        return f"the {self.facet} of the record at {self.source} offset {self.offset} {what}"

    def to_do(self) -> str:
        return (
            f"The rule for {self.source.topic} in schemaMapping.topics says {self.refused}: refused; with untouched it "
            f"is copied as it is. To go on behind it, without it: {set_command(*self.source, self.offset + 1)}"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(ORDERS, 42, "value", "unframed")
