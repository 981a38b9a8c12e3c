"""Collects where the batches of a chunk went."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from k2k_assets.core.words import plural
from k2k_assets.transport.chunk import Sent
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.interface import Delivery
from k2k_assets.transport.record_batch.batches.outgoing import OutgoingBatch
from k2k_assets.transport.record_batch.wire.traffic import QueueSize

_UNKNOWN = -1


@dataclass(slots=True)
class PendingPart:
    """Records of a chunk that go to one partition.

    Attributes:
        sent: The chunk.
        partition: Where they go.
        indexes: The index in the chunk of each, rising.
        counts: The number of records of each batch that they are sent as.
        bases: Where the first record of each batch is on the target, and the others behind it; -1 before that is known.
    """

    sent: Sent
    partition: int
    indexes: Sequence[int]
    counts: list[int]
    bases: list[int]

    def index_of(self, batch: int, record: int) -> int:
        """The index in the chunk of a record.

        Args:
            batch: The number of its batch in this part.
            record: Its index in that batch.
        """
        return self.indexes[sum(self.counts[:batch]) + record]

    def is_one_stretch(self) -> bool:
        """Whether the batches lie behind each other, and hold the chunk's records in their order, from its first on."""
        is_in_order = not self.indexes[0] and self.indexes[-1] == len(self.indexes) - 1
        return is_in_order and self.bases == list(accumulate(self.counts[:-1], initial=self.bases[0]))

    def places(self) -> Iterator[tuple[int, int]]:
        """The index in the chunk of each record, and where it is on the target."""
        at = 0
        for count, base in zip(self.counts, self.bases, strict=True):
            yield from zip(self.indexes[at : at + count], range(base, base + count), strict=True)
            at += count


class QueuedBatch(NamedTuple):
    """A batch, and what learns where it went.

    Attributes:
        batch: The batch.
        part: The part of a chunk that it belongs to; None for control records.
        number: Its number in that part.
    """

    batch: OutgoingBatch
    part: PendingPart | None = None
    number: int = 0

    @property
    def size(self) -> QueueSize:
        """How much it adds to what waits."""
        return QueueSize(self.batch.records, self.batch.size)


class PendingChunk:
    """A chunk that was queued.

    Args:
        sent: Its source offsets.
    """

    __slots__ = ("_parts", "sent")

    def __init__(self, sent: Sent) -> None:
        self.sent = sent
        self._parts: list[PendingPart] = []

    @property
    def batches(self) -> int:
        """Number of batches."""
        return sum(len(part.counts) for part in self._parts)

    def queued(self, partition: int, indexes: Sequence[int], batches: Iterable[OutgoingBatch]) -> list[QueuedBatch]:
        """Adds records that go to a partition; where they are is noted in what is returned.

        Args:
            partition: The partition.
            indexes: The index in the chunk of each, rising.
            batches: The batches that hold them, in this order.
        """
        part = PendingPart(self.sent, partition, indexes, [], [])
        found = [QueuedBatch(batch, part, number) for number, batch in enumerate(batches)]
        part.counts += [batch.records for batch, _, _ in found]
        part.bases += [_UNKNOWN] * len(found)
        self._parts.append(part)
        return found

    def delivery(self) -> Delivery:
        """Where its records are on the target, when all its batches are answered.

        Raises:
            Restart: Some are not.
        """
        parts, sent = self._parts, self.sent
        if any(_UNKNOWN in part.bases for part in parts):
            raise Restart(f"not all records of {sent.source} were answered")
        count = sum(sum(part.counts) for part in parts)
        if count != sent.count or any(sum(part.counts) != len(part.indexes) for part in parts):
            raise Restart(f"{plural(count, 'record')} of {sent.source} sent of {sent.count}")
        first = parts[0]
        if len(parts) == 1 and first.is_one_stretch():
            base = first.bases[0]
            return Delivery(sent, first.partition, base, base + count - 1)
        each = [(_UNKNOWN, _UNKNOWN)] * count
        for part in parts:
            for index, offset in part.places():
                each[index] = part.partition, offset
        return Delivery(sent, each=each)
