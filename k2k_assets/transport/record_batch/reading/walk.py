"""Which batches of an answer are committed records, and where the position is behind them.

| batch | what becomes of it |
| --- | --- |
| cut off at the end of the answer | it comes again with the next answer |
| below the position | left out |
| control | ends an aborted transaction of its producer |
| of an aborted transaction | left out |
| empty: compaction has taken all its records | left out |
| else | its records |

The position moves past each of them. The broker lists aborted transactions by producer and first offset; each lasts
until its abort marker.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from k2k_assets.transport.record_batch.batches.batch import (
    SMALL_LARGEST,
    RecordBatch,
    base_at,
    batch_at,
    is_compressed_at,
    size_at,
)
from k2k_assets.transport.record_batch.batches.record_codec import decoded
from k2k_assets.transport.record_batch.errors import NotByBatches, Unreadable
from k2k_assets.transport.record_batch.reading.small_batches import joined_small
from k2k_assets.transport.record_batch.wire.fetch_messages import Aborted

_MARKER = struct.Struct(">hh")
_ABORT = 0


@dataclass(slots=True)
class Walked:
    """What is in an answer.

    Attributes:
        batches: The batches with records, in order.
        position: The offset behind all that was walked over.
        last_epoch: Leader epoch of the last batch; -1 if there is none.
        fault: Why it ends before the end of the answer.
    """

    position: int
    last_epoch: int = -1
    batches: list[RecordBatch] = field(default_factory=list)
    fault: Unreadable | NotByBatches | None = None


def walk(content: memoryview, position: int, stable: int, aborted: Sequence[Aborted], most_joined: int = 0) -> Walked:
    """Walks over an answer; it ends at a batch that cannot be read.

    Args:
        content: The batches.
        position: The next offset that is wanted.
        stable: The last stable offset: nothing from there on is decided.
        aborted: The aborted transactions among them.
        most_joined: Small batches with so many records at most are handed out as one; 0: none are.
    """
    found = Walked(position)
    try:
        _walk(content, found, stable, _AbortedProducers(aborted), most_joined)
    except (Unreadable, NotByBatches) as fault:
        found.fault = fault
    return found


def _walk(content: memoryview, found: Walked, stable: int, aborted: _AbortedProducers, most_joined: int) -> None:
    at, end = 0, len(content)
    while at < end:
        size = size_at(content, at)
        if size is None or at + size > end:
            return
        may_join = most_joined and size < SMALL_LARGEST and not is_compressed_at(content, at)
        if may_join and base_at(content, at) >= found.position:
            try:
                joined = joined_small(content, at, stable, most_joined, with_transactions=aborted.are_none)
            except Unreadable:
                joined, most_joined = None, 0  # the usual way tells what is wrong
            if joined is not None:
                found.batches += joined.batches
                found.last_epoch, found.position = joined.batches[-1].leader_epoch, joined.batches[-1].end
                at = joined.end
                continue
        batch = batch_at(content, at, size)
        at += size
        # All batches count here: an answer may begin inside an aborted transaction, or with its marker.
        is_aborted = aborted.includes(batch)
        if batch.end <= found.position:
            continue
        if batch.base >= stable:
            return
        if found.last_epoch >= 0 and batch.base < found.position:
            raise Unreadable(f"it begins at {batch.base}, before the end of the one before it", found.position)
        found.last_epoch = batch.leader_epoch
        if not batch.is_control and not is_aborted and batch.records:
            found.batches.append(batch)
        found.position = batch.end


class _AbortedProducers:
    """Who has an aborted transaction open, as the walk goes on."""

    def __init__(self, aborted: Sequence[Aborted]) -> None:
        self._coming = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._open: set[int] = set()

    @property
    def are_none(self) -> bool:
        """Whether there are none, now and further on."""
        return not self._coming and not self._open

    def includes(self, batch: RecordBatch) -> bool:
        """Whether a batch is one of an aborted transaction; batches have to be asked about in their order."""
        while self._coming and self._coming[-1].first_offset < batch.end:
            self._open.add(self._coming.pop().producer_id)
        if not batch.is_transactional or batch.producer_id not in self._open:
            return False
        if batch.is_control and _is_abort(batch):
            self._open.discard(batch.producer_id)
        return True


def _is_abort(batch: RecordBatch) -> bool:
    """Whether the marker of a control batch aborts; it may be gone, because compaction removes old markers."""
    key = decoded(batch).keys[0] if batch.records else None
    if key is None or len(key) < _MARKER.size:
        return False
    _, kind = _MARKER.unpack_from(key)
    return bool(kind == _ABORT)
