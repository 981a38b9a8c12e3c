"""The small interface that the copy loop sees: no type of a Kafka library passes through it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.capabilities import Capabilities
from k2k_assets.transport.chunk import Chunk, Sent

SINK_SECONDS = 30.0
"""How long any step of a sink may take."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where to read on.

    Attributes:
        offset: Next source offset.
        leader_epoch: Of the record before it, so that the source can tell a truncation; None if unknown.
        resume: Offset at which copying goes on, if that is behind `offset`: what lies between was passed over.
    """

    offset: int
    leader_epoch: int | None = None
    resume: int | None = None


@dataclass(slots=True)
class Polled:
    """What one poll brought.

    Attributes:
        chunks: Records, at most one chunk a partition, in source order.
        ends: Offsets at which the end of a partition was seen (past trailing markers).
        passed: How many records came and are left out.
    """

    chunks: list[Chunk] = field(default_factory=list)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    passed: int = 0


@dataclass(slots=True)
class Delivery:
    """Where a chunk went.

    Attributes:
        sent: The chunk, without its payload.
        partition: Target partition of a chunk that went there as one stretch; -1 with `each`.
        first: Target offset of its first record, of one stretch.
        last: Target offset of its last record, of one stretch.
        each: Target partition and offset of each record, where a report per record was asked for.
    """

    sent: Sent
    partition: int = -1
    first: int = -1
    last: int = -1
    each: list[tuple[int, int]] | None = None


class Source(Protocol):
    """Reads assigned partitions."""

    def assign(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Reads these partitions from these positions on, and no others.

        Raises:
            ClusterUnreachable: The source does not answer.
        """
        ...

    def poll(self, limit: int, timeout: float) -> Polled:
        """What is there, up to `limit` records; waits up to `timeout` seconds only if there is nothing.

        Fewer than `limit` tell that nothing more is at hand. A source that keeps whole batches may bring more, by less
        than one batch.

        Raises:
            SourceStopped: A partition cannot be read on.
            Restart: The connection has to be made anew.
        """
        ...

    def close(self) -> None:
        """Lets go; returns within seconds."""
        ...


class ControlWriter(Protocol):
    """Writes control records in transactions, under a transactional id."""

    def open(self) -> None:
        """Claims the transactional id: fences its former holder and aborts what that left open."""
        ...

    def begin(self) -> None:
        """Begins a transaction."""
        ...

    def write_control(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        """Queues a control record into the transaction."""
        ...

    def commit(self) -> None:
        """Commits. Returns only if it surely is committed, once, and nothing of it is still on its way.

        Raises:
            Fenced: A later holder of the id exists.
            Restart: Failed, or the outcome is not known: start again from what the target holds.
        """
        ...

    def close(self) -> None:
        """Aborts what is open, if that can be done at once, and lets go; returns within seconds."""
        ...


class Sink(ControlWriter, Protocol):
    """Writes chunks and control records in transactions."""

    def write(self, chunk: Chunk) -> Sent:
        """Queues a chunk, in order; returns what is remembered of it."""
        ...

    def foresee(self) -> Sequence[Delivery] | None:
        """Where the chunks since the last `settle` will go, in the same order; None if that cannot be known.

        If it does not come true, `commit` raises `Restart` and commits nothing.
        """
        ...

    def settle(self) -> Sequence[Delivery]:
        """Waits until all chunks since the last `settle` are on the target; one delivery each, same order.

        Raises:
            Undeliverable: The target refused a record.
            RetryAtOnce: It is not known where each record went; the next sink of the slot will know.
        """
        ...


class Sinks(Protocol):
    """The sinks of one slot, one for each of its sessions, and what outlives them."""

    def open_sink(self, transactional_id: str) -> Sink:
        """The sink of a session, under its id, which it has not claimed yet."""
        ...

    def close(self, discard: bool) -> None:
        """Lets go of what outlives sessions; returns within seconds.

        Args:
            discard: Whether what is queued is given up; otherwise it has a last chance.
        """
        ...


class Transport(Protocol):
    """One way to bring the records of a pipeline from its source to its target."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        ...

    def open_source(self) -> Source:
        """Reads the source; nothing is assigned yet."""
        ...

    def open_sinks(self, lone_writer: bool, batch_bytes: int) -> Sinks:
        """Writes to the target for one slot.

        Args:
            lone_writer: Whether each source partition has a target partition that no other one feeds.
            batch_bytes: The largest batch that all of its target topics take.
        """
        ...

    def open_control_writer(self, transactional_id: str) -> ControlWriter:
        """Writes control records only; it has not claimed its id yet."""
        ...

    def claim(self, transactional_id: str, timeout: float, step: str) -> None:
        """Claims an id on the target and lets go of it: its holder is fenced, what that left open is aborted.

        Args:
            transactional_id: Which.
            timeout: Seconds.
            step: What errors call it.

        Raises:
            NotAllowed: The principal may not do it.
            TimeoutTooLong: The brokers do not take the pipeline's transaction time-out.
            Restart: The target did not answer in time.
        """
        ...
