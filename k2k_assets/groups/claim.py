"""The claims of mappers in the assignment topic: of two mappers of one pipeline, the later claim is right.

A claim's offset is where its mapper's generation comes from. It is written before the mapper fences the transactional
ids of the mappers before it, so that whoever was fenced finds a later claim than its own, or was not superseded at all.
"""

from __future__ import annotations

import logging
import os
import socket
import time
import uuid
from dataclasses import dataclass

from k2k_assets.control.assignment_records import PARTITION
from k2k_assets.control.assignment_writing import write_record
from k2k_assets.core import json_codec
from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import ClusterUnreachable, Refused, Superseded
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.log_reader import LogReader, NotReadToTheEnd
from k2k_assets.kafka.messages import Message
from k2k_assets.mapping.algebra.in_memory_mappings import ANY_GROUP
from k2k_assets.pipeline import Pipeline

log = logging.getLogger("k2k.groups")

KIND = "mapper"
VERSION = 1


@dataclass(frozen=True, slots=True)
class MapperClaim:
    """One life of a mapper.

    Attributes:
        pipeline: Name of the pipeline.
        group: Its `group.id`, or `ANY_GROUP`; None in claims of releases that did not tell groups apart.
        mapper: A name that nobody else has.
        host: Where it runs, for people.
        pid: Likewise.
        time: Milliseconds since the epoch, UTC.
    """

    pipeline: str
    group: str | None
    mapper: str
    host: str
    pid: int
    time: int

    @classmethod
    def new(cls, pipeline: str, group: str) -> MapperClaim:
        """This process as a mapper."""
        return cls(pipeline, group, uuid.uuid4().hex, socket.gethostname(), os.getpid(), int(time.time() * 1000))

    def moves_groups_of(self, group: str) -> bool:
        """Whether it may commit for the same consumer groups as a mapper with this `group.id`."""
        return self.group is None or ANY_GROUP in (self.group, group) or self.group == group

    def key_bytes(self) -> bytes:
        """The record's key. What the replicator writes of its groups has other kinds."""
        group = {} if self.group is None else {"group": self.group}
        return json_codec.encode({"kind": KIND, "pipeline": self.pipeline, "mapper": self.mapper, **group})

    def value_bytes(self) -> bytes:
        """The record's value."""
        return json_codec.encode({"version": VERSION, "host": self.host, "pid": self.pid, "time": self.time})


class MapperClaims:
    """Writes the claim of one mapper, and follows those of others. To be used by one thread at a time.

    Args:
        pipeline: Names pipeline and topic.
        target: The target cluster.
        timeout: Seconds that any reading may take.

    Raises:
        Refused: The assignment topic does not exist.
        ClusterUnreachable: The target does not answer.
    """

    def __init__(self, pipeline: Pipeline, target: Cluster, timeout: float = 30.0) -> None:
        self._pipeline = pipeline
        self._target = target
        self._timeout = timeout
        self._at = TopicPartition(pipeline.coordination.assignment.topic, PARTITION)
        self._claims: dict[int, MapperClaim] = {}
        self._own: MapperClaim | None = None
        self._unreadable: Refused | None = None
        self._offset = -1
        if self._at.topic not in target.describe([self._at.topic]):
            raise Refused(
                f"the assignment topic '{self._at.topic}' does not exist on the {target}. Create it (see "
                "docs/control-topics.md), or set 'features.autoCreateControlTopics: enabled'"
            )
        starts = target.offsets([self._at], "earliest")
        # Uncommitted: claims are written outside transactions, and an open one of somebody else must not hide them.
        properties = pipeline.client_properties("target", "consumer")
        self._reader = LogReader(properties, starts, committed_only=False, follow=True)

    def write(self) -> int:
        """Writes the own claim; returns its offset."""
        self._own = MapperClaim.new(self._pipeline.name, self._pipeline.group)
        self._offset = write_record(self._pipeline, self._own.key_bytes(), self._own.value_bytes())
        return self._offset

    def ensure_newest(self) -> None:
        """Looks for later claims.

        Raises:
            Superseded: There is one.
            ClusterUnreachable: The topic was not read to its end.
        """
        self._catch_up()
        newest = max(self._claims, default=-1)
        if newest > self._offset:
            other = self._claims[newest]
            raise Superseded(
                f"a newer offset mapper of pipeline {other.pipeline} has taken over: process {other.pid} on "
                f"{other.host} (claim {newest}, this one is {self._offset}). Nothing was committed since"
            )

    def rivals(self) -> set[str | None]:
        """Under which other groups' transactional ids the mappers before this one may still commit.

        Call it after `write`. The ids of older releases are among them as long as no mapper of this one was there.

        Raises:
            ClusterUnreachable: The topic was not read to its end.
        """
        self._catch_up()
        before: set[str | None] = {claim.group for offset, claim in self._claims.items() if offset < self._offset}
        own = self._pipeline.group
        return before - {own} if own in before else {*before, None}

    def forget_older(self) -> None:
        """Removes the claims of mappers that have been fenced."""
        for offset, claim in list(self._claims.items()):
            if offset < self._offset:
                write_record(self._pipeline, claim.key_bytes(), None)

    def close(self) -> None:
        """Lets go of the client."""
        self._reader.close()

    def __enter__(self) -> MapperClaims:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _catch_up(self) -> None:
        if self._unreadable:
            raise self._unreadable  # it may be the claim of a newer mapper, of a newer release
        ends = self._target.offsets([self._at], "latest")
        try:
            for batch in self._reader.read_until(ends, Deadline(self._timeout)):
                for message in batch:
                    self._take(message)
        except NotReadToTheEnd as behind:
            raise ClusterUnreachable(f"the assignment topic on the {self._target} was not read: {behind}") from None

    def _take(self, message: Message) -> None:
        where = f"{self._at}@{message.offset()}"
        try:
            head = json_codec.decode(message.key(), f"{where}, key")
            if head.get("kind") != KIND or head.get("pipeline") != self._pipeline.name:
                return
            name, group = str(head["mapper"]), head.get("group")
            self._claims = {offset: claim for offset, claim in self._claims.items() if claim.mapper != name}
            if message.value() is not None:
                claim = _claim(self._pipeline.name, group, name, message.value(), where)
                if claim.moves_groups_of(self._pipeline.group):
                    self._claims[message.offset()] = claim
        except (KeyError, TypeError, ValueError) as error:
            said = f"{self._at.topic} on the {self._target} cannot be read: {where}: {error}"
            if self._pipeline.error_handling.on_control_message_deserialization_error == "ignore":
                log.warning("control record ignored: %s", said)
                return
            self._unreadable = Refused(said)
            raise self._unreadable from None


def _claim(pipeline: str, group: str | None, mapper: str, value: bytes | None, where: str) -> MapperClaim:
    body = json_codec.decode(value, where)
    json_codec.check_version(body, VERSION, where)
    host, pid, written = str(body.get("host", "?")), int(body.get("pid", 0)), int(body.get("time", 0))
    return MapperClaim(pipeline, group, mapper, host, pid, written)
