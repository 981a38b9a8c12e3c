"""The records of the assignment topic. All lie in its partition 0, so offsets order them.

| kind | written by | meaning |
| --- | --- | --- |
| instance | a driver, outside transactions | an attempt to run a pipeline; its own offset is its *generation* |
| claim | a slot, in a small transaction of its own | it copies this partition; a tombstone: released, or fenced |
| heartbeat (`beat`) | a slot, likewise | it is alive |
| stop | whoever wants an end, outside transactions | the slots of this generation commit and leave |
| start | a driver, likewise | where a topic begins of which nothing was copied; a tombstone: all has positions |
| settings | a driver, likewise | what a fingerprint in mapping records stands for; never removed |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.core import json_codec, wire

VERSION = 1
PARTITION = 0


@dataclass(frozen=True, slots=True)
class InstanceRecord:
    """One attempt to run a pipeline.

    Attributes:
        instance: A name that nobody else has.
        pipeline: Name of the pipeline.
        slots: How many slots it uses, so which transactional ids it begins with.
        commit_topic_id: Of the commit topic that it used: another one means that progress was lost.
        host: Where it runs, for people.
        pid: Likewise.
        time: Milliseconds since the epoch, UTC.
        continuous: Whether it goes on until somebody stops it.
        run: Id of the Dagster run that it is; None outside Dagster, and in records of releases that did not note it.
    """

    instance: str
    pipeline: str
    slots: int
    commit_topic_id: str
    host: str
    pid: int
    time: int
    continuous: bool = False
    run: str | None = None
    version: ClassVar[int] = VERSION

    def __str__(self) -> str:
        run = f", Dagster run {self.run}" if self.run else ""
        return f"pipeline {self.pipeline} on {self.host}, process {self.pid}{run}"


class _InstanceValue(wire.Value, frozen=True):
    pipeline: str
    slots: int
    commit_topic_id: str
    host: str = wire.written("?")
    pid: int = wire.written(0)
    time: int = wire.written(0)
    continuous: bool = wire.written(False)
    run: str | None = None


class _ClaimKey(wire.Fields, frozen=True, tag_field="kind", tag="claim"):
    group: str
    topic_id: str
    partition: int
    transactional_id: str
    claim: str


class _ClaimValue(wire.Value, frozen=True):
    generation: int
    slot: int
    topic: str
    time: int = wire.written(0)


class _StartValue(wire.Value, frozen=True, kw_only=True):
    topic: str = wire.written("")
    positions: tuple[int, ...]


class _StopValue(wire.Value, frozen=True):
    time: int = wire.written(0)
    again: bool = wire.written(False)


class _HeartbeatValue(wire.Value, frozen=True):
    time: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A slot's word that it copies a partition.

    Attributes:
        topic_id: Of the source topic.
        partition: Of the source.
        transactional_id: Under which the slot commits: claimed anew, the slot is fenced.
        claim: Drawn anew each time that the id is claimed, so that compaction never takes one claim for another.
        generation: Of the slot's instance.
        slot: Which slot.
        topic: Name of the source topic, for people.
        offset: Where the claim lies; a claim that is not written yet has none and comes after all others.
    """

    topic_id: str
    partition: int
    transactional_id: str
    claim: str
    generation: int
    slot: int
    topic: str
    offset: int = -1

    @property
    def what(self) -> tuple[str, int]:
        """The partition, by topic id."""
        return self.topic_id, self.partition

    @property
    def owner(self) -> tuple[int, int]:
        """The slot: its generation and number."""
        return self.generation, self.slot

    def key_bytes(self, group: str) -> bytes:
        """The record's key: that of this very claim, so that its tombstone can never remove another one."""
        key = _ClaimKey(group, self.topic_id, self.partition, self.transactional_id, self.claim)
        return wire.encode(key)

    def value_bytes(self, time: int) -> bytes:
        """The record's value.

        Args:
            time: Milliseconds since the epoch, UTC.
        """
        return wire.encode(_ClaimValue(VERSION, self.generation, self.slot, self.topic, time))

    @classmethod
    def parse(cls, head: dict[str, Any], value: bytes, offset: int, where: str) -> Claim:
        """Reads a claim.

        Args:
            head: The decoded key.
            value: The value.
            offset: Where it lies.
            where: Named in errors.

        Raises:
            ValueError: It cannot be read.
        """
        key, body = wire.read(_ClaimKey, head, where), wire.decode(_ClaimValue, value, VERSION, where)
        who, when = (key.transactional_id, key.claim), (body.generation, body.slot)
        return cls(key.topic_id, key.partition, *who, *when, body.topic, offset)


def instance_key(group: str, instance: str) -> bytes:
    """The key of an instance record."""
    return json_codec.encode({"kind": "instance", "group": group, "instance": instance})


def instance_value(instance: InstanceRecord) -> bytes:
    """The value of an instance record."""
    return wire.encode(wire.fields_of(instance, _InstanceValue))


def parse_instance(name: str, value: bytes, where: str) -> InstanceRecord:
    """Reads an instance record.

    Raises:
        ValueError: It cannot be read.
    """
    return InstanceRecord(name, **wire.contents(wire.decode(_InstanceValue, value, VERSION, where)))


def start_key(group: str, topic_id: str) -> bytes:
    """The key of a start record."""
    return json_codec.encode({"kind": "start", "group": group, "topicId": topic_id})


def start_value(topic: str, positions: tuple[int, ...]) -> bytes:
    """The value of a start record.

    Args:
        topic: Name of the source topic, for people.
        positions: Where each partition begins.
    """
    return wire.encode(_StartValue(version=VERSION, topic=topic, positions=positions))


def parse_start(value: bytes, where: str) -> tuple[int, ...]:
    """Reads a start record.

    Raises:
        ValueError: It cannot be read.
    """
    return wire.decode(_StartValue, value, VERSION, where).positions


def settings_key(group: str, fingerprint: str) -> bytes:
    """The key of a settings record."""
    return json_codec.encode({"kind": "settings", "group": group, "fingerprint": fingerprint})


def settings_value(settings: CopySettings) -> bytes:
    """The value of a settings record."""
    return json_codec.encode({"version": VERSION, "settings": settings.document()})


def parse_settings(value: bytes, where: str) -> dict[str, Any]:
    """Reads a settings record: a document for `CopySettings.parse`, which may know of more than this release.

    Raises:
        ValueError: It cannot be read.
    """
    document = json_codec.decode(value, where).get("settings")
    if not isinstance(document, dict):
        raise ValueError(f"{where}: has no settings")
    return document


def stop_key(group: str, generation: int) -> bytes:
    """The key of a stop record."""
    return json_codec.encode({"kind": "stop", "group": group, "generation": generation})


def stop_value(time: int, again: bool) -> bytes:
    """The value of a stop record.

    Args:
        time: When it was written, milliseconds since the epoch, UTC.
        again: Whether the instance goes on with a new generation.
    """
    return wire.encode(_StopValue(VERSION, time, again))


def parse_stop(value: bytes, where: str) -> bool:
    """Whether the instance of a stop record goes on with a new generation.

    Raises:
        ValueError: It cannot be read.
    """
    return wire.decode(_StopValue, value, VERSION, where).again


def heartbeat_key(group: str, generation: int, slot: int) -> bytes:
    """The key of a slot's heartbeats."""
    return json_codec.encode({"kind": "beat", "group": group, "generation": generation, "slot": slot})


def time_value(time: int) -> bytes:
    """The value of a heartbeat: when it was written, in milliseconds since the epoch, UTC."""
    return wire.encode(_HeartbeatValue(VERSION, time))


def parse_time(value: bytes, where: str) -> int:
    """Reads a heartbeat.

    Raises:
        ValueError: It cannot be read.
    """
    return wire.decode(_HeartbeatValue, value, VERSION, where).time
