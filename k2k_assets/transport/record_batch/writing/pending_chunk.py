"""Collects where the batches of a chunk went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from k2k_assets.core.words import plural
from k2k_assets.transport.chunk import Sent
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.interface import Delivery


@dataclass(slots=True)
class Piece:
    """Records of a chunk that are sent as one batch.

    Attributes:
        chunk: The chunk.
        partition: Where they go.
        indexes: The index in the chunk of each, rising.
        base_offset: Where the first one is on the target, and the others behind it; -1 before that is known.
    """

    chunk: PendingChunk
    partition: int
    indexes: Sequence[int]
    base_offset: int = -1


class PendingChunk:
    """A chunk that was queued.

    Args:
        sent: Its source offsets.
    """

    __slots__ = ("_pieces", "sent")

    def __init__(self, sent: Sent) -> None:
        self.sent = sent
        self._pieces: list[Piece] = []

    @property
    def batches(self) -> int:
        """Number of pieces."""
        return len(self._pieces)

    def piece(self, partition: int, indexes: Sequence[int]) -> Piece:
        """Adds a piece, whose answer then sets its offset."""
        found = Piece(self, partition, indexes)
        self._pieces.append(found)
        return found

    def delivery(self) -> Delivery:
        """Where its records are on the target, when all its batches are answered.

        Raises:
            Restart: Some are not.
        """
        pieces, count = self._pieces, 0
        if any(piece.base_offset < 0 for piece in pieces):
            raise Restart(f"not all records of {self.sent.source} were answered")
        first = pieces[0]
        is_one_stretch = True
        for piece in pieces:
            is_one_stretch = (
                is_one_stretch
                and piece.partition == first.partition
                and piece.base_offset == first.base_offset + count
                and piece.indexes[0] == count
                and piece.indexes[-1] == count + len(piece.indexes) - 1
            )
            count += len(piece.indexes)
        if count != self.sent.count:
            raise Restart(f"{plural(count, 'record')} of {self.sent.source} sent of {self.sent.count}")
        if is_one_stretch:
            last = first.base_offset + count - 1
            return Delivery(self.sent, first.partition, first.base_offset, last)
        each = [(-1, -1)] * count
        for piece in pieces:
            for delta, index in enumerate(piece.indexes):
                each[index] = piece.partition, piece.base_offset + delta
        return Delivery(self.sent, each=each)
