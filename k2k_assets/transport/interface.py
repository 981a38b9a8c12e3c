"""The interface between copy loop and transport. No type of a Kafka library passes through it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.capabilities import Capabilities
from k2k_assets.transport.chunk import Chunk, Sent

SINK_SECONDS = 30.0
"""Longest time for any step of a sink."""


@dataclass(frozen=True, slots=True)
class Position:
    """The offset from which to read a source partition.

    Attributes:
        offset: Next source offset to read.
        leader_epoch: Leader epoch of the record before it, by which the source detects a truncation; None if unknown.
        resume: Offset from which records are copied, if it lies behind `offset`: records in between were left out
            before, and are left out again.
    """

    offset: int
    leader_epoch: int | None = None
    resume: int | None = None


@dataclass(slots=True)
class Polled:
    """The result of one poll.

    Attributes:
        chunks: Records, at most one chunk for each partition, in source order.
        ends: Ends of partitions that were seen, past trailing markers.
        epochs: Positions behind these records before which the log has that leader epoch, and not the one that it was
            assigned with: nothing was written in that one.
        passed: Number of records that were read and left out.
        is_held_back: Whether there may be records that were not asked for, because a limit is reached.
        has_more: Whether the source is known to have more that was asked for and has not arrived yet.
    """

    chunks: list[Chunk] = field(default_factory=list)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    epochs: dict[TopicPartition, Position] = field(default_factory=dict)
    passed: int = 0
    is_held_back: bool = False
    has_more: bool = False


@dataclass(slots=True)
class Delivery:
    """The target offsets of a chunk: either of its first and last record, or of each record.

    Attributes:
        sent: The source offsets of the chunk.
        partition: Target partition; -1 with `each`.
        first: Target offset of the first record; -1 with `each`.
        last: Target offset of the last record; -1 with `each`.
        each: Target partition and offset of each record, if each record was reported.
    """

    sent: Sent
    partition: int = -1
    first: int = -1
    last: int = -1
    each: list[tuple[int, int]] | None = None


class Source(Protocol):
    """Reads assigned partitions of the source."""

    def assign(
        self, positions: Mapping[TopicPartition, Position], keep_waiting: Callable[[], None] | None = None
    ) -> None:
        """Reads these partitions from these positions on, and no others.

        Args:
            positions: Where to begin.
            keep_waiting: Called now and then while brokers do not answer, as far as the client allows; what it raises
                ends the wait.

        Raises:
            ClusterUnreachable: The source does not answer.
        """
        ...

    def poll(self, limit: int, timeout: float) -> Polled:
        """Returns up to `limit` records that have arrived; waits up to `timeout` seconds if there are none.

        Fewer than `limit` records mean that no more have arrived. A source that keeps whole batches may return more, by
        less than one batch.

        Raises:
            SourceStopped: A partition cannot be read any further.
            Restart: The connection has to be made anew.
        """
        ...

    def gather(self, seconds: float) -> None:
        """Lets records arrive for so long; the next poll returns them.

        Raises:
            Restart: The connection has to be made anew.
        """
        ...

    def close(self) -> None:
        """Closes the client; returns within seconds."""
        ...


class ControlWriter(Protocol):
    """Writes control records in transactions, under a transactional id."""

    def open(self) -> None:
        """Initialises the transactional id: this fences its former holder, and aborts that one's open transaction.

        Raises:
            ClusterUnreachable: The target refuses the login.
            Restart: The target did not answer in time, or anything else is wrong.
        """
        ...

    def begin(self) -> None:
        """Begins a transaction; `open` has to come first, and `commit` ends it."""
        ...

    def write_control(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        """Queues a control record, or a tombstone if `value` is None, into the open transaction."""
        ...

    def commit(self) -> None:
        """Commits. It returns only if the commit has certainly succeeded and no request for it is still under way.

        Raises:
            Fenced: Another producer holds the transactional id now.
            Restart: The commit failed, or its outcome is not known.
            ClusterUnreachable: The target refuses the login; the outcome is not known.
        """
        ...

    def close(self) -> None:
        """Aborts the open transaction if that works at once, and closes the client; returns within seconds."""
        ...


class Sink(ControlWriter, Protocol):
    """Writes chunks and control records in transactions."""

    def raise_epochs(
        self, former: Mapping[TopicPartition, ProducerIdentity | None]
    ) -> Mapping[TopicPartition, ProducerIdentity]:
        """Decides under which producer id and epoch the records of source partitions are written outside transactions.

        Each epoch is above that of the partition's former owners: from its first batch on, brokers refuse their late
        records. The caller commits what is returned before it writes the first record, so that the next owner raises
        it again: two owners of the same epoch would count their records alike, and brokers take one's for the other's.

        Args:
            former: By source partition what its newest commit record says; None: no such owner is known.

        Returns:
            What is new, by source partition; empty if transactions fence, or if the transport cannot do it.

        Raises:
            Restart: The target does not give producer ids in time.
        """
        ...

    def write(self, chunk: Chunk) -> Sent:
        """Queues a chunk, in order; returns its source offsets, which the transaction keeps."""
        ...

    def write_aside(self, chunk: Chunk) -> None:
        """Queues records that are no copies: `settle` waits for them, and returns no delivery of them."""
        ...

    def foresee(self) -> Sequence[Delivery] | None:
        """Predicts the deliveries of the chunks since the last `settle`, in the same order; None if it cannot.

        If the prediction proves wrong, `commit` raises `Restart` and commits nothing.
        """
        ...

    def settle(self) -> Sequence[Delivery]:
        """Waits until all chunks since the last `settle` are on the target; returns a delivery for each, in order.

        Raises:
            Undeliverable: The target refused a record.
            RetryAtOnce: The target offsets of some records are not known; the next sink of the slot will report each.
        """
        ...


class Sinks(Protocol):
    """Opens the sinks of one slot, one for each session, and keeps the state that outlives sessions."""

    def open_sink(self, transactional_id: str) -> Sink:
        """Makes the sink of a session; `Sink.open` initialises its transactional id later."""
        ...

    def close(self, discard: bool) -> None:
        """Closes the clients that outlive sessions; returns within seconds.

        Args:
            discard: Whether queued records are dropped at once; otherwise the client tries to deliver them first.
        """
        ...


class Transport(Protocol):
    """One way to bring the records of a pipeline from its source to its target."""

    @property
    def capabilities(self) -> Capabilities:
        """The differences to other transports that the copy loop has to know."""
        ...

    def open_source(self, buffer_bytes: int | None = None) -> Source:
        """Makes a source client; no partitions are assigned yet.

        Args:
            buffer_bytes: About how many bytes it fetches ahead, beyond its largest record; None: as it likes.
        """
        ...

    def open_sinks(self, lone_writer: bool, batch_bytes: int) -> Sinks:
        """Makes the sinks of one slot.

        Args:
            lone_writer: Whether each source partition has a target partition that no other one feeds.
            batch_bytes: The largest batch that all target topics of the slot accept.
        """
        ...

    def open_control_writer(self, transactional_id: str) -> ControlWriter:
        """Makes a writer of control records; its `open` initialises the transactional id later."""
        ...

    def claim(self, transactional_id: str, timeout: float, step: str) -> None:
        """Initialises a transactional id: this fences its former holder, and aborts that one's open transaction.

        (The glossary's claim is a record in the assignment topic.)

        Args:
            transactional_id: The id to initialise.
            timeout: Longest time in seconds.
            step: Names this step in errors.

        Raises:
            NotAllowed: The principal may not use the id.
            TimeoutTooLong: The pipeline's transaction time-out is longer than the brokers allow.
            Restart: The target did not answer in time.
        """
        ...
