"""Writes claims under one transactional id, and fences the holders of others: steps 2, 3, 5, 8 of `fencing_rules.py`.

`fence` is for the ids of others only. A slot fences the former holder of its own id when its sink claims that id with
`init_transactions` (`transport/producer_calls.py`), which is the usual fencing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from k2k_assets.control.assignment_records import PARTITION, Claim, heartbeat_key
from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.control.commit_log import now_ms
from k2k_assets.coordination import fencing_rules
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline
from k2k_assets.transport.factory import records_transport_of

_FENCE_SECONDS = 30.0


class Writer(Protocol):
    """Writes control records in transactions, under a transactional id that it holds: a sink, or a control writer."""

    def begin(self) -> None:
        """Begins a transaction; each one ends with `commit`."""
        ...

    def write_control(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        """Queues a record, or a tombstone if `value` is None, into the open transaction."""
        ...

    def commit(self) -> None:
        """Commits the open transaction."""
        ...


def fence(pipeline: Pipeline, transactional_ids: Iterable[str], timeout: float = _FENCE_SECONDS) -> None:
    """Fences the holders of transactional ids: from now on they can commit nothing.

    Each id is initialised once, which bumps its epoch and aborts the transaction that its holder left open.

    Args:
        pipeline: Names the target, and how many ids to fence at once (`coordination.assignment.fencingMaxParallelism`).
        transactional_ids: The ids to fence.
        timeout: Seconds for each id.

    Raises:
        Restart: The target did not answer.
        Refused: The principal may not use one of the ids.
    """
    transport = records_transport_of(pipeline)

    def fence_one(transactional_id: str) -> None:
        transport.claim(transactional_id, timeout, f"fencing {transactional_id}")

    with ThreadPoolExecutor(pipeline.coordination.assignment.fencing_max_parallelism) as pool:
        list(pool.map(fence_one, transactional_ids))


class ClaimWriter:
    """Writes and removes the claims of one slot, or of one override.

    Args:
        pipeline: Names the group and the assignment topic.
        tail: Follows the assignment topic.
        writer: Writes each step in a transaction of its own.
        transactional_id: The id that `writer` holds.
        owner: Generation and number of the slot.
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
        """Makes claims with new claim ids; writes none of them.

        Args:
            partitions: Source topic id of each partition.
        """
        generation, slot = self._owner
        return {
            tp: Claim(topic_id, tp.partition, self._id, uuid.uuid4().hex, generation, slot, tp.topic)
            for tp, topic_id in partitions.items()
        }

    def claim(self, fresh: Mapping[TopicPartition, Claim]) -> dict[TopicPartition, Claim]:
        """Writes claims, and tombstones of the claims of former holders of the id, who are fenced by now.

        Returns:
            The claims with their offsets: the topic is read to its end after they were written.
        """
        left = fencing_rules.left_by_former_holders(self._id, self._tail.catch_up().claims.values())
        now = now_ms()
        # Claims before tombstones: a reader that has seen only a part must not take the partitions for free.
        self.write([*((self._key(claim), claim.value_bytes(now)) for claim in fresh.values()), *self.tombstones(left)])
        known = self._tail.catch_up().claims
        # A claim that is missing has been fenced already: the broker will refuse every commit under it.
        return {tp: known.get(claim.claim, claim) for tp, claim in fresh.items()}

    def fence(self, claims: Sequence[Claim]) -> None:
        """Fences the holders of claims, and only then writes the tombstones.

        A process that dies in between leaves the claims, and the next claimant fences them once more.
        """
        fence(self._pipeline, sorted({claim.transactional_id for claim in claims} - {self._id}))
        self.write(self.tombstones(claims))
        self._tail.catch_up()

    def tombstones(self, claims: Iterable[Claim]) -> list[tuple[bytes, bytes | None]]:
        """Returns the tombstones of claims, as keys and values."""
        return [(self._key(claim), None) for claim in claims]

    def release_all(self, claims: Iterable[Claim]) -> list[tuple[bytes, bytes | None]]:
        """Returns the tombstones of a slot that ends: of claims, and of its heartbeats, else it would seem alive."""
        return [*self.tombstones(claims), (heartbeat_key(self._pipeline.group, *self._owner), None)]

    def write(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Writes records in one transaction; without records it begins none."""
        if not records:
            return
        self._writer.begin()
        for key, value in records:
            self._writer.write_control(self._pipeline.coordination.assignment.topic, PARTITION, key, value)
        self._writer.commit()

    def _key(self, claim: Claim) -> bytes:
        return claim.key_bytes(self._pipeline.group)
