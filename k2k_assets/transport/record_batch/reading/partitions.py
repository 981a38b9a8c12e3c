"""The partitions that are read: how far each is, who leads it, and what of it waits to be handed out."""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.errors import SourceStopped
from k2k_assets.transport.interface import Position
from k2k_assets.transport.record_batch.batches.batch import HEADER
from k2k_assets.transport.record_batch.batches.columns import ArrivedBatch
from k2k_assets.transport.record_batch.errors import NotByBatches
from k2k_assets.transport.record_batch.wire.fetch_messages import FetchPosition
from k2k_assets.transport.record_batch.wire.traffic import QueueSize

NOBODY = -1
"""In the place of a node id, where no leader is known."""


def size_of(arrived: Iterable[ArrivedBatch]) -> QueueSize:
    """The size of some batches."""
    records = bytes_ = 0
    for batch, offsets in arrived:
        records += len(offsets)
        bytes_ += HEADER + len(batch.payload)
    return QueueSize(records, bytes_)


@dataclass(frozen=True, slots=True)
class SeenEnd:
    """The end of a partition was seen, behind what was handed out before.

    Attributes:
        offset: Where it is, past trailing markers.
    """

    offset: int


@dataclass(slots=True)
class ReadPartition:
    """A partition that is read.

    Attributes:
        tp: Which one.
        position: The next offset to ask for.
        epoch: Leader epoch of what was read last, as far as the log knows it; -1 if unknown.
        topic_id: Its topic's id, 16 bytes; None before the first answer about it.
        leader: Node id of the leader; `NOBODY`: it has to be found.
        leader_epoch: Its leader epoch; -1 if unknown.
        queue: What was read, in order; nothing comes behind an error. A position: the log has its leader epoch there,
            and not the one that was asked for.
        told_end: The end that was told last; -1 for none.
        stable: Up to there records are known to be committed; -1 before the first answer.
        missing_since: Since when brokers do not know it, monotonic seconds; None if they do.
        is_stopped: Whether it is read no further.
        resume: Behind the markers and aborted records that followed its first position, as of `Position`; -1 if there
            were none.
    """

    tp: TopicPartition
    position: int
    epoch: int
    topic_id: bytes | None = None
    leader: int = NOBODY
    leader_epoch: int = -1
    queue: deque[ArrivedBatch | SeenEnd | Position | SourceStopped | NotByBatches] = field(default_factory=deque)
    told_end: int = -1
    stable: int = -1
    missing_since: float | None = None
    is_stopped: bool = False
    resume: int = -1

    def stop(self, reason: StopReason) -> None:
        """Reads it no further; what was read before is still handed out."""
        self.fail(SourceStopped(self.tp, reason))

    def fail(self, error: SourceStopped | NotByBatches) -> None:
        """As `stop`, with the error itself."""
        self.queue.append(error)
        self.is_stopped = True

    def pass_deleted(self, log_start: int) -> bool:
        """Reads on behind what the source has deleted, if that is nothing to copy; returns whether it is.

        Args:
            log_start: Where the log begins, behind the position.
        """
        if not self.position < log_start <= self.resume:
            return False
        self.position, self.epoch = self.resume, -1  # that of the last record holds right behind it only
        return True

    def seek_leader(self) -> None:
        """Has its leader found anew."""
        self.leader = NOBODY

    @property
    def has_more(self) -> bool:
        """Whether its leader is known to have more than was read."""
        return self.position < self.stable and self.leader != NOBODY and not self.is_stopped

    def wanted(self) -> FetchPosition:
        """What to ask of its leader."""
        return FetchPosition(self.tp, self.topic_id or bytes(16), self.position, self.leader_epoch, self.epoch)


def id_text(topic_id: bytes | None) -> str:
    """A topic id as Kafka writes it."""
    return base64.urlsafe_b64encode(topic_id or bytes(16)).rstrip(b"=").decode()
