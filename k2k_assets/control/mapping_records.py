"""The mapping record: what one transaction copied of one source partition, and where it went.

Written in the same target transaction as the data. `covered` is the source range that the transaction answers
for, written even when nothing of it went to the target: so "nothing went there" and "a record is missing" differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from k2k_assets.core import json_codec
from k2k_assets.core.runs import Run

VERSION = 1


class MappingKey(NamedTuple):
    """The key of a mapping record: whose progress, and the source partition."""

    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class MappedPartition:
    """The runs into one target partition.

    Attributes:
        topic: Target topic.
        topic_id: Its id.
        partition: Target partition.
        runs: Merged runs, ordered by source offset.
    """

    topic: str
    topic_id: str
    partition: int
    runs: tuple[Run, ...]


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

    def key_bytes(self) -> bytes:
        """The record's key."""
        return json_codec.encode({"group": self.group, "topic": self.topic, "partition": self.partition})

    def value_bytes(self) -> bytes:
        """The record's value."""
        return json_codec.encode(self.document())

    def document(self) -> dict[str, Any]:
        """The record's value as a JSON document."""
        rare = {"settings": self.settings, "override": self.override}
        return {
            "version": VERSION,
            "pipeline": self.pipeline,
            "cluster": self.cluster,
            "sourceTopicId": self.source_topic_id,
            "generation": self.generation,
            "slot": self.slot,
            "sequence": self.sequence,
            "time": self.time,
            "from": self.covered_from,
            "to": self.covered_to,
            "targets": [
                {"topic": t.topic, "id": t.topic_id, "partition": t.partition, "runs": t.runs} for t in self.targets
            ],
            **{name: value for name, value in rare.items() if value},
        }

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
        head = parse_key(key, where)
        body = json_codec.decode(value, where)
        json_codec.check_version(body, VERSION, where)
        try:
            return cls(
                group=head.group,
                topic=head.topic,
                partition=head.partition,
                pipeline=body["pipeline"],
                cluster=body["cluster"],
                source_topic_id=body["sourceTopicId"],
                generation=body["generation"],
                slot=body["slot"],
                sequence=body["sequence"],
                time=body["time"],
                covered_from=body["from"],
                covered_to=body["to"],
                targets=tuple(_mapped_partition(target) for target in body["targets"]),
                override=body.get("override"),
                settings=body.get("settings"),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"{where}: field missing or of a wrong type: {error}") from None


def parse_key(key: bytes | None, where: str = "mapping record") -> MappingKey:
    """Reads a record's key.

    Raises:
        ValueError: It cannot be read.
    """
    head = json_codec.decode(key, f"{where}, key")
    parsed = MappingKey(head.get("group", ""), head.get("topic", ""), head.get("partition", -1))
    if not (isinstance(parsed.group, str) and isinstance(parsed.topic, str) and isinstance(parsed.partition, int)):
        raise ValueError(f"{where}: a field of the key is of a wrong type: {parsed}")
    if not {"group", "topic", "partition"} <= head.keys():
        raise ValueError(f"{where}: field missing in the key, which has {', '.join(head) or 'none'}")
    return parsed


def _mapped_partition(target: dict[str, Any]) -> MappedPartition:
    runs = tuple(Run(*run) for run in target["runs"])
    return MappedPartition(target["topic"], target["id"], target["partition"], runs)
