"""Writes claims under one transactional id, and gets rid of those of others: the steps 2, 3, 5 and 8 of `rules.py`."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from k2k_assets.control.assignment_records import PARTITION, Claim, heartbeat_key
from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.control.commit_log import now_ms
from k2k_assets.coordination import rules
from k2k_assets.coordination.fencing import fence
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline


class Writer(Protocol):
    """Writes control records in transactions, under an id that it has claimed."""

    def begin(self) -> None:
        """Begins a transaction."""
        ...

    def write_control(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        """Queues a record into it."""
        ...

    def commit(self) -> None:
        """Commits it."""
        ...


class ClaimWriter:
    """The claims of one holder of a transactional id.

    Args:
        pipeline: Names group and topic.
        tail: The assignment topic.
        writer: Writes each step in a transaction of its own.
        transactional_id: That of the writer.
        owner: Generation and slot.
    """

    def __init__(
        self, pipeline: Pipeline, tail: AssignmentTail, writer: Writer, transactional_id: str, owner: tuple[int, int]
    ) -> None:
        self._pipeline = pipeline
        self._tail = tail
        self._writer = writer
        self._id = transactional_id
        self._owner = owner

    def new(self, partitions: Mapping[TopicPartition, str]) -> dict[TopicPartition, Claim]:
        """Claims that are not written yet, with ids that are drawn now.

        Args:
            partitions: Source topic id of each partition.
        """
        generation, slot = self._owner
        return {
            tp: Claim(topic_id, tp.partition, self._id, uuid.uuid4().hex, generation, slot, tp.topic)
            for tp, topic_id in partitions.items()
        }

    def claim(self, fresh: Mapping[TopicPartition, Claim]) -> dict[TopicPartition, Claim]:
        """Writes claims, and tombstones of those that former holders of the id left: they were fenced just now.

        Returns:
            The claims as they lie in the topic, which was read to its end after they were written.
        """
        left = rules.left_by_former_holders(self._id, self._tail.catch_up().claims.values())
        now = now_ms()
        # Claims first: whoever reads only a part of it must not take the partitions for free.
        self.write([*((self._key(claim), claim.value_bytes(now)) for claim in fresh.values()), *self.tombstones(left)])
        known = self._tail.catch_up().claims
        # A claim that is not there any more has been fenced already: what is done under it will be refused.
        return {tp: known.get(claim.claim, claim) for tp, claim in fresh.items()}

    def fence(self, claims: Sequence[Claim]) -> None:
        """Claims the ids of others away, and only then says so: who dies before leaves what the next one fences."""
        fence(self._pipeline, sorted({claim.transactional_id for claim in claims} - {self._id}))
        self.write(self.tombstones(claims))
        self._tail.catch_up()

    def tombstones(self, claims: Iterable[Claim]) -> list[tuple[bytes, bytes | None]]:
        """The records that release claims."""
        return [(self._key(claim), None) for claim in claims]

    def release_all(self, claims: Iterable[Claim]) -> list[tuple[bytes, bytes | None]]:
        """The records that release claims of a slot that ends, and its heartbeats: else it would seem to live."""
        return [*self.tombstones(claims), (heartbeat_key(self._pipeline.group, *self._owner), None)]

    def write(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Writes records in a transaction of their own; nothing if there are none."""
        if not records:
            return
        self._writer.begin()
        for key, value in records:
            self._writer.write_control(self._pipeline.coordination.assignment.topic, PARTITION, key, value)
        self._writer.commit()

    def _key(self, claim: Claim) -> bytes:
        return claim.key_bytes(self._pipeline.group)
