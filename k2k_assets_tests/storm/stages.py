"""Stages that change records while it storms, and what each record has to be on the target by them.

The storm's judge compares a copy with what `through` makes of its original.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from k2k_assets.registry.framing import PREFIX, has_schema_id, id_of, prefix_of
from k2k_assets.sandbox.registry import SandboxRegistry
from k2k_assets_tests.support.brokers.kafka import Headers, ReadRecord, Record
from k2k_assets_tests.support.copies.both_ways import MARKER

_SCHEMAS = 12
# Of the target's registry: so that an id that was not mapped is noticed.
_HIGHER_BY = 40


class Stages:
    """No stage: a copy is what its original is."""

    def features(self) -> Mapping[str, str]:
        """What the pipeline file has under `features`."""
        return {}

    def write_options(self) -> Mapping[str, Any]:
        """Further arguments of `write_pipeline`."""
        return {}

    def write_beside(self, folder: Path) -> None:
        """Writes what has to lie beside the pipeline file."""

    def note_topic(self, topic: str) -> None:
        """A source topic is about to be made."""

    def dress(self, record: Record, rng: random.Random) -> Record:
        """A record as the source's writer writes it."""
        return record

    def through(self, record: ReadRecord) -> ReadRecord | None:
        """A record of the source as it has to be on the target; None: it must not be there."""
        return record

    def through_all(self, records: Iterable[ReadRecord]) -> list[ReadRecord]:
        """Likewise, without those that must not be there."""
        return [changed for record in records if (changed := self.through(record)) is not None]

    def is_copy(self, record: ReadRecord) -> bool:
        """Whether a record of the target is a copy: others may write there too."""
        return True

    def dead_letter(self, record: ReadRecord) -> bool:
        """Whether a record of the source has to be among the dead letters."""
        return False

    def dead_letter_topics(self) -> list[str]:
        """Topics of the target for dead letters."""
        return []

    def registries(self) -> list[SandboxRegistry]:
        """Schema registries that faults may strike."""
        return []


@dataclass
class MappedSchemas(Stages):
    """Two registries with other ids each: many values begin with an id.

    Attributes:
        source: The registry of the source.
        target: Likewise of the target.
    """

    source: SandboxRegistry
    target: SandboxRegistry

    def __post_init__(self) -> None:
        """Both begin empty."""
        self._ids: list[int] = []
        self._mapped: dict[int, int] = {}

    def write_options(self) -> Mapping[str, Any]:
        return {"registries": (self.source.url, self.target.url)}

    def note_topic(self, topic: str) -> None:
        """The same schemas under the subject of each topic: they have the same ids."""
        client = SchemaRegistryClient({"url": self.source.url})
        self._ids = [client.register_schema(f"{topic}-value", _schema(number)) for number in range(_SCHEMAS)]

    def dress(self, record: Record, rng: random.Random) -> Record:
        if record.value is None or rng.random() < 0.3:
            # Bytes that only look like an id would be a reason to stop.
            return record._replace(value=record.value and record.value.lstrip(b"\0"))
        return record._replace(value=prefix_of(rng.choice(self._ids)) + record.value)

    def through(self, record: ReadRecord) -> ReadRecord:
        if record.value is None or not has_schema_id(record.value):
            return record
        target_id = self._target_id(id_of(record.value), record.topic)
        return record._replace(value=prefix_of(target_id) + record.value[PREFIX:])

    def registries(self) -> list[SandboxRegistry]:
        return [self.source, self.target]

    def _target_id(self, source_id: int, topic: str) -> int:
        """Asked for by the words of the schema; not by what maps them."""
        if source_id not in self._mapped:
            schema = _schema(self._ids.index(source_id))
            client = SchemaRegistryClient({"url": self.target.url})
            found = client.lookup_schema(f"{topic}-value", schema)
            assert found.schema_id is not None
            self._mapped[source_id] = found.schema_id
        return self._mapped[source_id]


class Marked(Stages):
    """Each copy has a marker and tracing headers; records that have the marker already are echoes, and left out.

    Args:
        name: Of the pipeline, and of the one that copies back if there is one.
        clusters: The ids of source and target, for markers that hold those; None: they hold the name.
        echoes: Whether the writer writes echoes, where no pipeline copies back.
    """

    def __init__(self, name: str, clusters: tuple[str, str] | None = None, echoes: bool = True) -> None:
        self._name = name
        self._mark, self._echo = ((MARKER, held.encode()) for held in clusters or (name, name))
        self._echoes = echoes
        self._echoes_left = 0

    def features(self) -> Mapping[str, str]:
        return {"bidirectionalReplication": "enabled", "tracingHeaders": "enabled"}

    def write_options(self) -> Mapping[str, Any]:
        return {"name": self._name}

    def dress(self, record: Record, rng: random.Random) -> Record:
        """One in ten is an echo, and now and then comes a stretch of nothing else."""
        if not self._echoes:
            return record
        if self._echoes_left == 0 and rng.random() < 0.005:
            self._echoes_left = rng.randint(100, 400)
        is_echo = self._echoes_left > 0 or rng.random() < 0.1
        self._echoes_left = max(0, self._echoes_left - 1)
        return record._replace(headers=[*(record.headers or []), self._echo]) if is_echo else record

    def through(self, record: ReadRecord) -> ReadRecord | None:
        if self._echo in record.headers:
            return None
        tracing = [
            ("__k2k_partition", b"%d" % record.partition),
            ("__k2k_offset", b"%d" % record.offset),
            ("__k2k_topic", record.topic.encode()),
            ("__k2k_pipeline", self._name.encode()),
        ]
        return record._replace(headers=[*record.headers, self._mark, *tracing])

    def is_copy(self, record: ReadRecord) -> bool:
        return self._mark in record.headers


class Transformed(Stages):
    """Records with one header are left out, and what another one holds is masked."""

    def write_options(self) -> Mapping[str, Any]:
        kept = {"not": {"header": "storm-private", "equals": "yes"}}
        masks = [{"header": "storm-user", "hash": "sha256"}]
        return {"transform": [{"pattern": ".*", "filter": kept}, {"pattern": ".*", "mask": masks}]}

    def dress(self, record: Record, rng: random.Random) -> Record:
        """One in eight is private, and of every other one a user is told."""
        more: Headers = [("storm-private", b"yes" if rng.random() < 0.125 else b"no")]
        if rng.random() < 0.5:
            more.append(("storm-user", b"u%d" % rng.randint(0, 9)))
        return record._replace(headers=[*(record.headers or []), *more])

    def through(self, record: ReadRecord) -> ReadRecord | None:
        if ("storm-private", b"yes") in record.headers:
            return None
        masked: Headers = [
            (name, hashlib.sha256(of or b"").hexdigest().encode() if name == "storm-user" else of)
            for name, of in record.headers
        ]
        return record._replace(headers=masked)


class Together(Stages):
    """Several stages.

    Args:
        stages: In the order in which the pipeline has them.
    """

    def __init__(self, *stages: Stages) -> None:
        self._stages = stages

    def features(self) -> Mapping[str, str]:
        return {name: value for stage in self._stages for name, value in stage.features().items()}

    def write_options(self) -> Mapping[str, Any]:
        """Rules of several of them apply one after the other."""
        options: dict[str, Any] = {}
        for stage in self._stages:
            for name, value in stage.write_options().items():
                options[name] = [*options.get(name, ()), *value] if name == "transform" else value
        return options

    def write_beside(self, folder: Path) -> None:
        for stage in self._stages:
            stage.write_beside(folder)

    def note_topic(self, topic: str) -> None:
        for stage in self._stages:
            stage.note_topic(topic)

    def dress(self, record: Record, rng: random.Random) -> Record:
        for stage in self._stages:
            record = stage.dress(record, rng)
        return record

    def through(self, record: ReadRecord) -> ReadRecord | None:
        found: ReadRecord | None = record
        for stage in self._stages:
            found = stage.through(found) if found is not None else None
        return found

    def is_copy(self, record: ReadRecord) -> bool:
        return all(stage.is_copy(record) for stage in self._stages)

    def dead_letter(self, record: ReadRecord) -> bool:
        """A record that an earlier one leaves out does not come to a later one."""
        found: ReadRecord | None = record
        for stage in self._stages:
            if found is None or stage.dead_letter(found):
                return found is not None
            found = stage.through(found)
        return False

    def dead_letter_topics(self) -> list[str]:
        return [topic for stage in self._stages for topic in stage.dead_letter_topics()]

    def registries(self) -> list[SandboxRegistry]:
        return [registry for stage in self._stages for registry in stage.registries()]


@contextmanager
def mapped_schemas(directory: Path) -> Iterator[MappedSchemas]:
    """With registries of its own.

    Args:
        directory: For their logs.
    """
    source = SandboxRegistry("source", directory / "source-registry")
    target = SandboxRegistry("target", directory / "target-registry", first_id=_HIGHER_BY)
    try:
        source.start()
        target.start()
        yield MappedSchemas(source, target)
    finally:
        source.kill()
        target.kill()


def _schema(number: int) -> Schema:
    return Schema(json.dumps({"type": "record", "name": f"Storm{number}", "fields": []}), "AVRO")
