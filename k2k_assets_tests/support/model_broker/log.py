"""A partition's log as a broker keeps it: batches, what it remembers of producers, markers, the last stable offset.

The rules are those of Kafka's `ProducerStateManager` and `ProducerAppendInfo`; a test compares them with a real broker.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

import google_crc32c

CORRUPT, OUT_OF_ORDER, STALE_EPOCH, INVALID_RECORD = 2, 45, 47, 87
_HEADER = struct.Struct(">qiibIhiqqqhii")
_PREFIX, _CHECKED_FROM = 12, 21
_TRANSACTIONAL = 16
_REMEMBERED = 5
_LAST_SEQUENCE = 2**31 - 1
NOTHING = -1


class Logged(NamedTuple):
    """A batch in the log, or a marker.

    Attributes:
        base: Its first offset.
        offsets: Number of them.
        producer: Producer id and epoch.
        content: As it was sent; nothing of a marker.
        commits: Of a marker: whether it commits; None for a batch.
    """

    base: int
    offsets: int
    producer: tuple[int, int]
    content: bytes = b""
    commits: bool | None = None


@dataclass(slots=True)
class Remembered:
    """What is remembered of a producer.

    Attributes:
        epoch: Its epoch.
        batches: First and last sequence and base offset of its last batches under it.
        open_from: First offset of its open transaction; None if none is open.
    """

    epoch: int
    batches: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    open_from: int | None = None

    @property
    def last_sequence(self) -> int:
        """Of its last record under its epoch."""
        return self.batches[-1][1] if self.batches else NOTHING

    def move_to(self, epoch: int) -> None:
        """Takes another epoch, under which nothing was written yet."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()


@dataclass(slots=True)
class Verification:
    """A producer whose first batch of a transaction was verified, or refused, and is not in the log yet.

    Attributes:
        epoch: Its epoch.
        lowest: The lowest sequence that was seen: a higher one has to wait for it.
        joins: Whether its partitions join by their first records.
    """

    epoch: int
    lowest: int
    joins: bool


class Header(NamedTuple):
    """What a broker looks at in a batch."""

    producer_id: int
    epoch: int
    sequence: int
    records: int
    is_transactional: bool
    error: int


def header_of(content: bytes) -> Header:
    """Reads and checks a batch."""
    (base, length, _, _, crc, attributes, delta, _, _, producer, epoch, sequence, count) = _HEADER.unpack_from(content)
    error = 0
    if length + _PREFIX != len(content) or base != 0 or delta + 1 != count:
        error = INVALID_RECORD
    elif google_crc32c.value(content[_CHECKED_FROM:]) != crc:
        error = CORRUPT
    return Header(producer, epoch, sequence, count, bool(attributes & _TRANSACTIONAL), error)


class ModelLog:
    """The log of one partition.

    Attributes:
        entries: Batches and markers.
        producers: What is remembered, by producer id.
        verifications: Those under way, by producer id.
    """

    def __init__(self) -> None:
        self.entries: list[Logged] = []
        self.producers: dict[int, Remembered] = {}
        self.verifications: dict[int, Verification] = {}

    @property
    def end(self) -> int:
        """The offset of the next record."""
        return self.entries[-1].base + self.entries[-1].offsets if self.entries else 0

    @property
    def stable(self) -> int:
        """The last stable offset."""
        return min((each.open_from for each in self.producers.values() if each.open_from is not None), default=self.end)

    def has_open(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer has a transaction open here, under this epoch."""
        known = self.producers.get(producer_id)
        return known is not None and known.open_from is not None and known.epoch == epoch

    def is_stale(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer has written here under a later epoch."""
        known = self.producers.get(producer_id)
        return known is not None and epoch < known.epoch

    def begin_verification(self, header: Header, joins: bool) -> None:
        """Notes that a batch has to be verified, because its producer has no transaction open here."""
        found = self.verifications.setdefault(header.producer_id, Verification(header.epoch, header.sequence, joins))
        if header.epoch == found.epoch:
            found.lowest = min(found.lowest, header.sequence)
        elif header.epoch > found.epoch:
            found.epoch, found.lowest = header.epoch, header.sequence

    def append(self, content: bytes) -> tuple[int, int]:
        """Appends a batch of a producer.

        Returns:
            Error code and base offset; a batch that is there already has the offset that it has.
        """
        header = header_of(content)
        if header.error:
            return header.error, NOTHING
        known = self.producers.get(header.producer_id)
        last = _after(header.sequence, header.records - 1)
        if known is not None and known.epoch == header.epoch:
            for first_of, last_of, base in known.batches:
                if (first_of, last_of) == (header.sequence, last):
                    return 0, base
        if error := _sequence_error(header, known, self.verifications.get(header.producer_id)):
            return error, NOTHING
        self.verifications.pop(header.producer_id, None)
        base = self.end
        if known is None:
            known = self.producers[header.producer_id] = Remembered(header.epoch)
        known.move_to(header.epoch)
        known.batches.append((header.sequence, last, base))
        if header.is_transactional and known.open_from is None:
            known.open_from = base
        self.entries.append(Logged(base, header.records, (header.producer_id, header.epoch), content))
        return 0, base

    def mark(self, producer_id: int, epoch: int, commits: bool) -> None:
        """Ends a producer's transaction; under the second version of transactions the epoch is a new one."""
        known = self.producers.setdefault(producer_id, Remembered(epoch))
        assert epoch >= known.epoch
        known.move_to(epoch)
        known.open_from = None
        self.verifications.pop(producer_id, None)
        self.entries.append(Logged(self.end, 1, (producer_id, epoch), commits=commits))

    def committed(self) -> list[Logged]:
        """The batches that a reader of committed records sees, in order."""
        found: list[Logged] = []
        pending: dict[int, list[Logged]] = {}
        for entry in self.entries:
            if entry.commits is None:
                pending.setdefault(entry.producer[0], []).append(entry)
            else:
                ended = pending.pop(entry.producer[0], [])
                found += ended if entry.commits else []
        return sorted(entry for entry in found if entry.base < self.stable)


def _sequence_error(header: Header, known: Remembered | None, verification: Verification | None) -> int:
    if known is not None and header.epoch < known.epoch:
        return STALE_EPOCH
    if verification is not None:
        if verification.joins and header.sequence and (known is None or not known.batches):
            return OUT_OF_ORDER
        if header.sequence > verification.lowest:
            return OUT_OF_ORDER
    if known is None:
        return 0
    if header.epoch > known.epoch:
        return OUT_OF_ORDER if header.sequence else 0
    return 0 if header.sequence == _after(known.last_sequence, 1) else OUT_OF_ORDER


def _after(sequence: int, count: int) -> int:
    return (sequence + count) % (_LAST_SEQUENCE + 1)
