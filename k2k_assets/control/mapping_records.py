"""The mapping record: what one transaction copied of one source partition, and where it went.

Written in the same target transaction as the data. `covered` is the source range that the transaction answers
for, written even when nothing of it went to the target: so "nothing went there" and "a record is missing" differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from msgspec import field

from k2k_assets.core import wire
from k2k_assets.core.runs import Run

VERSION = 1


class MappingKey(wire.Fields, frozen=True):
    """The key of a mapping record: whose progress, and the source partition."""

    group: str
    topic: str
    partition: int


class MappedPartition(wire.Fields, frozen=True):
    """The runs into one target partition.

    Attributes:
        topic: Target topic.
        topic_id: Its id.
        partition: Target partition.
        runs: Merged runs, ordered by source offset.
    """

    topic: str
    topic_id: str = field(name="id")
    partition: int
    runs: tuple[Run, ...]


class _Value(wire.Value, frozen=True):
    pipeline: str
    cluster: str
    source_topic_id: str
    generation: int
    slot: int
    sequence: int
    time: int
    covered_from: int = field(name="from")
    covered_to: int = field(name="to")
    targets: tuple[MappedPartition, ...]
    settings: str | None = None
    override: str | None = None


@dataclass(frozen=True, slots=True)
class MappingRecord:
    """One record of the mapping topic.

    Attributes:
        group: Identity of the progress.
        topic: Source topic.
        partition: Source partition.
        pipeline: Name of the pipeline.
        cluster: Source cluster id.
        source_topic_id: Source topic id.
        generation: Of the instance that copied.
        slot: Of the task that copied.
        sequence: Rises by one with each transaction of the slot's life.
        time: Milliseconds since the epoch, UTC.
        covered_from: First source offset answered for (inclusive).
        covered_to: End of the range (exclusive).
        targets: The runs, by target partition.
        override: Who set the position by hand, and why: nothing of the range was copied, and what was mapped from its
            start on before is cancelled. None in records of copies.
        settings: Fingerprint of the settings under which it was copied (`copy_settings`); None in records of releases
            that did not note it.
    """

    group: str
    topic: str
    partition: int
    pipeline: str
    cluster: str
    source_topic_id: str
    generation: int
    slot: int
    sequence: int
    time: int
    covered_from: int
    covered_to: int
    targets: tuple[MappedPartition, ...]
    override: str | None = None
    settings: str | None = None

    version: ClassVar[int] = VERSION

    def key_bytes(self) -> bytes:
        """The record's key."""
        return wire.encode(wire.fields_of(self, MappingKey))

    def value_bytes(self) -> bytes:
        """The record's value."""
        return wire.encode(wire.fields_of(self, _Value))

    def document(self) -> dict[str, Any]:
        """The record's value as a JSON document."""
        return wire.document(wire.fields_of(self, _Value))

    @classmethod
    def parse(cls, key: bytes | None, value: bytes | None, where: str = "mapping record") -> MappingRecord:
        """Reads a record.

        Args:
            key: The record's key.
            value: The record's value.
            where: Topic, partition and offset, for the error.

        Raises:
            ValueError: It cannot be read, or a newer release wrote it.
        """
        head, body = parse_key(key, where), wire.decode(_Value, value, VERSION, where)
        return cls(**wire.contents(head), **wire.contents(body))


def parse_key(key: bytes | None, where: str = "mapping record") -> MappingKey:
    """Reads a record's key.

    Raises:
        ValueError: It cannot be read.
    """
    return wire.decode_key(MappingKey, key, where)
