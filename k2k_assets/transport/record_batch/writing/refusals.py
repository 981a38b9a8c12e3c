"""Which record of a batch the target refuses."""

from __future__ import annotations

from k2k_assets.transport.errors import Undeliverable
from k2k_assets.transport.record_batch.batches.batch import NO_PRODUCER, RecordBatch
from k2k_assets.transport.record_batch.batches.outgoing import OutgoingBatch
from k2k_assets.transport.record_batch.batches.record_codec import decoded
from k2k_assets.transport.record_batch.errors import Unreadable, error_text
from k2k_assets.transport.record_batch.wire.produce_messages import ProducedPartition
from k2k_assets.transport.record_batch.writing.pending_chunk import PendingPart, QueuedBatch


def refusal_of(queued: QueuedBatch, part: PendingPart, found: ProducedPartition) -> Undeliverable:
    """The error for a batch that the target refuses because of what is in it.

    Args:
        queued: The batch.
        part: The part of a chunk that it belongs to.
        found: The answer; it may tell the record.
    """
    batch, sent = queued.batch, part.sent
    index, words = next(iter(found.refused), (None, found.words))
    if batch.records == 1:
        index = 0
    if index is not None and not 0 <= index < batch.records:
        index = None
    text = error_text(found.error, words)
    if index is None:
        return Undeliverable(sent, None, 0, text, final=False)
    return Undeliverable(sent, part.index_of(queued.number, index), _size(batch, index), text, final=True)


def _size(batch: OutgoingBatch, index: int) -> int:
    """Bytes of key and value of a record."""
    attributes, first, latest, count, content, *_ = batch
    payload = memoryview(content)
    try:
        records = decoded(
            RecordBatch(0, count, -1, attributes, first, latest, NO_PRODUCER, count, payload, payload[:0])
        )
    except Unreadable:
        return len(payload) // count
    return len(records.keys[index] or b"") + len(records.values[index] or b"")
