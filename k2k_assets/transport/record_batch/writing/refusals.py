"""Which record of a batch the target refuses."""

from __future__ import annotations

from k2k_assets.transport.errors import Undeliverable
from k2k_assets.transport.record_batch.batches.batch import HEADER
from k2k_assets.transport.record_batch.batches.outgoing import OutgoingBatch
from k2k_assets.transport.record_batch.wire.produce_messages import ProducedPartition
from k2k_assets.transport.record_batch.writing.pending_chunk import Piece
from k2k_assets.transport.record_batch.writing.write_errors import error_text


def refusal_of(batch: OutgoingBatch, piece: Piece, found: ProducedPartition) -> Undeliverable:
    """The error for a batch that the target refuses because of what is in it.

    Args:
        batch: The batch.
        piece: Which records these are.
        found: The answer; it may tell the record.
    """
    index, words = next(iter(found.refused), (None, found.words))
    if batch.records == 1:
        index = 0
    if index is not None and not 0 <= index < batch.records:
        index = None
    sent = piece.chunk.sent
    text = error_text(found.error, words)
    if index is None:
        return Undeliverable(sent, None, 0, text, final=False)
    # Of one among several only a share is known, because they may be compressed together.
    size = (batch.size - HEADER) // batch.records
    return Undeliverable(sent, piece.indexes[index], size, text, final=True)
