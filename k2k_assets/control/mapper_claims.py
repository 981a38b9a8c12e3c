"""Claims and heartbeats of mappers in the assignment topic, beside those of slots: records and fold. Pure."""

from __future__ import annotations

import os
import socket
import time
import uuid
from dataclasses import dataclass, field, replace
from typing import ClassVar

from k2k_assets.core import json_codec, wire

KIND = "mapper"
# A heartbeat has a kind of its own: the claim with the highest offset wins, so a mapper never writes its claim again.
HEARTBEAT_KIND = "mapper-beat"
VERSION = 1


class _Value(wire.Value, frozen=True):
    host: str = wire.written("?")
    pid: int = wire.written(0)
    time: int = wire.written(0)
    run: str | None = None


@dataclass(frozen=True, slots=True)
class MapperClaim:
    """A mapper's record that it moves the groups of a pipeline, from its start to its end.

    Attributes:
        pipeline: Name of the pipeline.
        group: The pipeline's `group.id`, or the one that stands for all; None in claims of releases that did not tell
            groups apart.
        mapper: A unique name.
        host: Host on which it runs, for people.
        pid: Its process id, for people.
        time: Milliseconds since the epoch, UTC.
    """

    pipeline: str
    group: str | None
    mapper: str
    host: str
    pid: int
    time: int
    version: ClassVar[int] = VERSION

    @classmethod
    def new(cls, pipeline: str, group: str) -> MapperClaim:
        """Makes a claim of this process, with a new mapper name."""
        return cls(pipeline, group, uuid.uuid4().hex, socket.gethostname(), os.getpid(), _now())

    def key_bytes(self) -> bytes:
        """The record's key: UTF-8 JSON. Its kind sets it apart from the records of slots."""
        group = {} if self.group is None else {"group": self.group}
        return json_codec.encode({"kind": KIND, "pipeline": self.pipeline, "mapper": self.mapper, **group})

    def value_bytes(self) -> bytes:
        """The record's value: host, process and time, for people."""
        return wire.encode(wire.fields_of(self, _Value))


@dataclass(frozen=True, slots=True)
class MapperHeartbeat:
    """The sign of life of a mapper that runs until it is stopped. The first one may come before the mapper's claim.

    Attributes:
        pipeline: Name of the pipeline.
        group: The pipeline's `group.id`, or the one that stands for all.
        mapper: A unique name.
        host: Host on which it runs, for people.
        pid: Its process id, for people.
        time: Milliseconds since the epoch, UTC, for people.
        run: Id of its Dagster run; None for `k2k-offset-mapping`.
    """

    pipeline: str
    group: str
    mapper: str
    host: str
    pid: int
    time: int
    run: str | None = None
    version: ClassVar[int] = VERSION

    def __str__(self) -> str:
        what = f"Dagster run {self.run}" if self.run else "k2k-offset-mapping"
        return f"{what} on {self.host}, process {self.pid}"

    @classmethod
    def new(cls, pipeline: str, group: str, run: str | None) -> MapperHeartbeat:
        """Makes the first heartbeat of this process, with a new mapper name."""
        return cls(pipeline, group, uuid.uuid4().hex, socket.gethostname(), os.getpid(), _now(), run)

    def now(self) -> MapperHeartbeat:
        """Makes the next heartbeat of the same mapper, with the present time."""
        return replace(self, time=_now())

    def key_bytes(self) -> bytes:
        """The record's key, the same for all heartbeats of a mapper: compaction keeps the last one."""
        return json_codec.encode(
            {"kind": HEARTBEAT_KIND, "pipeline": self.pipeline, "mapper": self.mapper, "group": self.group}
        )

    def value_bytes(self) -> bytes:
        """The record's value: host, process, time, and the Dagster run if there is one."""
        return wire.encode(wire.fields_of(self, _Value))


@dataclass(slots=True)
class ClaimedMappers:
    """The mappers of one pipeline by the assignment topic. It takes in records in any order.

    Attributes:
        pipeline: Name of the pipeline.
    """

    pipeline: str
    _newest: dict[str, tuple[int, MapperClaim | None]] = field(default_factory=dict)
    _heartbeats: dict[str, tuple[int, MapperHeartbeat | None]] = field(default_factory=dict)

    @property
    def claims(self) -> dict[int, MapperClaim]:
        """The claims without a tombstone, by offset."""
        return {offset: claim for offset, claim in self._newest.values() if claim is not None}

    @property
    def heartbeats(self) -> dict[int, MapperHeartbeat]:
        """The last heartbeat of each mapper that has not ended, by offset."""
        return {offset: heartbeat for offset, heartbeat in self._heartbeats.values() if heartbeat is not None}

    def apply(self, offset: int, key: bytes | None, value: bytes | None, where: str) -> None:
        """Takes in one record; ignores records of other pipelines and other kinds.

        Raises:
            ValueError: The record cannot be read.
        """
        head = json_codec.decode(key, f"{where}, key")
        if head.get("kind") not in (KIND, HEARTBEAT_KIND) or head.get("pipeline") != self.pipeline:
            return
        try:
            name, group = str(head["mapper"]), head.get("group")
            if head["kind"] == KIND:
                claim = None if value is None else _claim(self.pipeline, group, name, value, where)
                if offset >= self._newest.get(name, (-1, None))[0]:
                    self._newest[name] = offset, claim
            else:
                heartbeat = None if value is None else _heartbeat(self.pipeline, str(group), name, value, where)
                if offset >= self._heartbeats.get(name, (-1, None))[0]:
                    self._heartbeats[name] = offset, heartbeat
        except (KeyError, TypeError) as error:
            raise ValueError(f"field missing or of a wrong type: {error}") from None


def _claim(pipeline: str, group: str | None, mapper: str, value: bytes, where: str) -> MapperClaim:
    body = wire.decode(_Value, value, VERSION, where)
    return MapperClaim(pipeline, group, mapper, body.host, body.pid, body.time)


def _heartbeat(pipeline: str, group: str, mapper: str, value: bytes, where: str) -> MapperHeartbeat:
    body = wire.decode(_Value, value, VERSION, where)
    return MapperHeartbeat(pipeline, group, mapper, body.host, body.pid, body.time, body.run)


def _now() -> int:
    return int(time.time() * 1000)
