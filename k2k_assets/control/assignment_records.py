"""The records of the assignment topic. All lie in its partition 0, so offsets order them.

| kind | written by | meaning |
| --- | --- | --- |
| instance | a driver, outside transactions | an attempt to run a pipeline; its own offset is its *generation* |
| claim | a slot, in a small transaction of its own | it copies this partition; a tombstone: released, or fenced |
| heartbeat (`beat`) | a slot, in a small transaction of its own | the slot is alive |
| stop | a driver, or a slot that cannot go on, outside transactions | the slots of this generation commit and leave |
| start | a driver, outside transactions | start positions of a new topic; a tombstone: all are committed |
| `run-beat` | a Dagster run, outside transactions | it is alive; a tombstone: it is over, or its slots live |
| pause | `k2k-tool pause`, outside transactions | this topic is not copied; a tombstone: it is again |
| settings | a driver, outside transactions | the settings behind a fingerprint in mapping records; never removed |
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
        instance: A unique name.
        pipeline: Name of the pipeline.
        slots: Number of slots; the instance begins with as many transactional ids.
        commit_topic_id: Id of the commit topic that it used; if the id changes, progress was lost.
        host: Host on which it runs, for people.
        pid: Its process id, for people.
        time: Milliseconds since the epoch, UTC.
        continuous: Whether it runs until somebody stops it.
        run: Id of its Dagster run; None outside Dagster, and in records of releases that did not note it.
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
    """A slot's record that it copies a partition.

    Attributes:
        topic_id: Id of the source topic.
        partition: Source partition.
        transactional_id: The id under which the slot commits; initialising it again fences the slot.
        claim: Random id of this claim, drawn anew after each initialisation, so that compaction never mixes up claims.
        generation: Generation of the slot's instance.
        slot: Number of the slot.
        topic: Name of the source topic, for people.
        offset: Offset of the claim in the assignment topic; -1 while it is not written, after all other claims.
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
        """The slot that claims: its generation and number."""
        return self.generation, self.slot

    def key_bytes(self, group: str) -> bytes:
        """The record's key. It contains the claim id, so that a tombstone can never remove another claim."""
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
            offset: Offset of the record.
            where: Names the record in errors.

        Raises:
            ValueError: The record cannot be read.
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
    """Reads the value of an instance record.

    Raises:
        ValueError: The value cannot be read.
    """
    return InstanceRecord(name, **wire.contents(wire.decode(_InstanceValue, value, VERSION, where)))


def start_key(group: str, topic_id: str) -> bytes:
    """The key of a start record."""
    return json_codec.encode({"kind": "start", "group": group, "topicId": topic_id})


def start_value(topic: str, positions: tuple[int, ...]) -> bytes:
    """The value of a start record.

    Args:
        topic: Name of the source topic, for people.
        positions: Start position of each partition.
    """
    return wire.encode(_StartValue(version=VERSION, topic=topic, positions=positions))


def parse_start(value: bytes, where: str) -> tuple[int, ...]:
    """Reads the value of a start record: the start position of each partition.

    Raises:
        ValueError: The value cannot be read.
    """
    return wire.decode(_StartValue, value, VERSION, where).positions


def settings_key(group: str, fingerprint: str) -> bytes:
    """The key of a settings record."""
    return json_codec.encode({"kind": "settings", "group": group, "fingerprint": fingerprint})


def settings_value(settings: CopySettings) -> bytes:
    """The value of a settings record."""
    return json_codec.encode({"version": VERSION, "settings": settings.document()})


def parse_settings(value: bytes, where: str) -> dict[str, Any]:
    """Reads the value of a settings record: a document for `CopySettings.parse`, perhaps with fields of newer releases.

    Raises:
        ValueError: The value cannot be read.
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
        time: Now, in milliseconds since the epoch, UTC.
        again: Whether the stopped instance goes on with a new generation.
    """
    return wire.encode(_StopValue(VERSION, time, again))


def parse_stop(value: bytes, where: str) -> bool:
    """Reads the value of a stop record: whether the stopped instance goes on with a new generation.

    Raises:
        ValueError: The value cannot be read.
    """
    return wire.decode(_StopValue, value, VERSION, where).again


def heartbeat_key(group: str, generation: int, slot: int) -> bytes:
    """The key of a slot's heartbeats."""
    return json_codec.encode({"kind": "beat", "group": group, "generation": generation, "slot": slot})


def run_heartbeat_key(group: str, run: str) -> bytes:
    """The key of the heartbeats of a Dagster run that is no slot and no mapper."""
    return json_codec.encode({"kind": "run-beat", "group": group, "run": run})


def time_value(time: int) -> bytes:
    """The value of a heartbeat with the time now, in milliseconds since the epoch, UTC."""
    return wire.encode(_HeartbeatValue(VERSION, time))


def parse_time(value: bytes, where: str) -> int:
    """Reads the value of a heartbeat: its time, in milliseconds since the epoch, UTC.

    Raises:
        ValueError: The value cannot be read.
    """
    return wire.decode(_HeartbeatValue, value, VERSION, where).time
