"""Proves that the records of a source stretch and their copies are the same, one for one. Pure.

A record is proven if

- it is the next record of the stretch on the source, and its copy is the next one on the target,
- as many mapped offsets lie before it as records, so none is missing and none is on the source only,
- its copy lies where the mappings say,
- timestamp and body (key, value, headers) are the same bytes.

Where two batches were cut alike and hold the same bytes, their records are not looked at: they are the same.
Everything else is a doubt. Nothing is said to be different here: what is in doubt has to be compared by records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from k2k_assets.transport.record_batch.batches.batch import CODEC_BITS, TRANSACTIONAL, RecordBatch
from k2k_assets.transport.record_batch.batches.codecs import decompressed
from k2k_assets.verification.content.by_batches.bodies import equal_bodies
from k2k_assets.verification.content.by_batches.frames import RecordFrames, SizesGuess, frames_of
from k2k_assets.verification.content.by_batches.mapped_offsets import MappedOffsets

# Of the attributes: what may differ, and is usual.
_USUAL = TRANSACTIONAL | CODEC_BITS
_MOST_BATCHES, _MOST_BYTES = 1024, 1024 * 1024
"""How much is decoded at once; one batch may have more bytes."""


class Doubt(Exception):
    """The next record is not proven to be the same."""


class BatchStream(Protocol):
    """The committed batches of one partition, in order."""

    def more(self) -> Sequence[RecordBatch] | None:
        """The next ones, at least one; None if none begins before the end of the stretch."""
        ...


class _Cursor:
    """How far one side is: whole batches, or records of decoded ones before them.

    Args:
        stream: The batches.
        start: Offset of the first record that counts.
        end: Offset after the last one.
    """

    def __init__(self, stream: BatchStream, start: int, end: int) -> None:
        self._stream, self._start, self._end = stream, start, end
        self.batches: deque[RecordBatch] = deque()
        self.frames: RecordFrames | None = None
        self._first_content: bytes | None = None

    def fill(self) -> bool:
        """Gets more if nothing is in hand; returns whether anything is."""
        while self.frames is None and not self.batches:
            found = self._stream.more()
            if found is None:
                return False
            self.batches.extend(batch for batch in found if batch.base < self._end)
        return True

    def whole_batch(self) -> RecordBatch | None:
        """The next batch, if all of it counts, and nothing lies before it."""
        if self.frames is not None:
            return None
        first = self.batches[0]
        return first if self._start <= first.base and first.end <= self._end and first.is_whole else None

    def content(self) -> bytes:
        """What is in the next batch, decompressed."""
        if self._first_content is None:
            self._first_content = decompressed(self.batches[0].codec, self.batches[0].payload)
        return self._first_content

    def pass_batch(self) -> None:
        """The next batch is proven."""
        self.batches.popleft()
        self._first_content = None

    def pass_records(self, count: int) -> None:
        """So many decoded records are proven."""
        assert self.frames is not None
        self.frames = self.frames.part(count, len(self.frames)) if count < len(self.frames) else None

    def decode(self, most: int, guess: SizesGuess | None = None) -> None:
        """Decodes up to so many batches; no records are in hand."""
        contents = [self.content()]
        taken, size = [self.batches[0]], len(contents[0])
        self.pass_batch()
        while self.batches and len(taken) < most and size < _MOST_BYTES:
            contents.append(self.content())
            taken.append(self.batches[0])
            size += len(contents[-1])
            self.pass_batch()
        for batch in taken:
            _ensure_plain(batch)
        found = frames_of(taken, contents, guess).within(self._start, self._end)
        self.frames = found if len(found) else None


class Proof:
    """Goes over a stretch of both sides at once.

    Args:
        mapped: The mapped offsets of the stretch.
        source: The source's batches.
        target: The target's batches, from that of the first copy on.
        start: First source offset of the stretch.
        end: Source offset after the stretch.

    Attributes:
        records: Number of proven records.
        last: Offset of the last of them; -1 if there is none.
        undecoded: Number of records that were proven without being looked at.
        is_complete: Whether all of the stretch is proven.
    """

    def __init__(self, mapped: MappedOffsets, source: BatchStream, target: BatchStream, start: int, end: int) -> None:
        self.records = self.undecoded = 0
        self.last = -1
        self.is_complete = False
        self._mapped, self._back = mapped, mapped.inverse()
        self._source = _Cursor(source, start, end)
        self._target = _Cursor(target, mapped.first_target, mapped.target_end)
        self._most = 1

    def step(self) -> bool:
        """Proves some more; returns whether anything is left.

        Raises:
            Doubt: The record behind those that are proven is not proven.
            Unreadable: A batch is damaged.
        """
        if self.records == self._mapped.records:
            return self._is_more_on_source()
        if not self._source.fill():
            raise Doubt("a mapped record is not on the source")
        if not self._target.fill():
            raise Doubt("a mapped record is not on the target")
        if not self._pass_equal_batches():
            self._compare_records()
        return True

    def _is_more_on_source(self) -> bool:
        """All mapped records are proven: the source must have no other ones."""
        while self._source.fill():
            if self._source.frames is None:
                self._source.decode(1)
            if self._source.frames is not None:
                raise Doubt("a record of the source is not mapped")
        self.is_complete = True
        return False

    def _pass_equal_batches(self) -> bool:
        one, other = self._source.whole_batch(), self._target.whole_batch()
        if one is None or other is None or not _are_cut_alike(one, other):
            return False
        if self._mapped.of_stretch(one.base, one.end) != (self.records, other.base):
            return False
        _ensure_plain(one)
        _ensure_plain(other)
        is_same_codec = one.codec == other.codec
        if not (is_same_codec and _are_equal(one.payload, other.payload)):
            if is_same_codec and not one.codec:
                return False
            if self._source.content() != self._target.content():
                return False
        self._source.pass_batch()
        self._target.pass_batch()
        self.records += one.records
        self.undecoded += one.records
        self.last = one.end - 1
        self._most = 1
        return True

    def _compare_records(self) -> None:
        """Decodes as little as it can while batches may be cut alike again, and more at once if they are not."""
        if self._source.frames is None:
            self._source.decode(self._most, _guess(self._target.frames, self._back))
        if self._target.frames is None:
            self._target.decode(self._most, _guess(self._source.frames, self._mapped))
        one, other = self._source.frames, self._target.frames
        if one is None or other is None:
            return
        self._most = min(2 * self._most, _MOST_BATCHES)
        count = min(len(one), len(other))
        proven = self._proven(one.part(0, count), other.part(0, count))
        if proven:
            self.records += proven
            self.last = int(one.offsets[proven - 1])
        if proven < count:
            raise Doubt(self._words(one.part(proven, count), other.part(proven, count)))
        self._source.pass_records(count)
        self._target.pass_records(count)

    def _proven(self, one: RecordFrames, other: RecordFrames) -> int:
        """How many of the records are proven, from the first on."""
        ranks, targets = self._mapped.of_offsets(one.offsets)
        good = (
            (ranks == np.arange(self.records, self.records + len(one)))
            & (targets == other.offsets)
            & (one.timestamps == other.timestamps)
            & (one.attributes == other.attributes)
            & (one.ends - one.bodies == other.ends - other.bodies)
        )
        count = len(one) if good.all() else int(np.argmin(good))
        return equal_bodies(one.part(0, count), other.part(0, count))

    def _words(self, one: RecordFrames, other: RecordFrames) -> str:
        """What is in doubt about the first of some records."""
        rank, target = (int(each[0]) for each in self._mapped.of_offsets(one.offsets[:1]))
        if rank < 0:
            return "a record of the source is not mapped"
        if rank != self.records:
            return "a mapped record is not on the source"
        if target != other.offsets[0]:
            return "the next record of the target is not the copy"
        return "timestamps differ" if one.timestamps[0] != other.timestamps[0] else "records differ"


def _guess(frames: RecordFrames | None, mapped: MappedOffsets) -> SizesGuess | None:
    """What the records on the other side are, if they are the same as these."""
    if frames is None:
        return None
    return SizesGuess(mapped.of_offsets(frames.offsets)[1], frames.timestamps, frames.ends - frames.bodies)


def _are_cut_alike(one: RecordBatch, other: RecordBatch) -> bool:
    return (one.records, one.end - one.base, one.base_timestamp, one.attributes & ~_USUAL) == (
        other.records, other.end - other.base, other.base_timestamp, other.attributes & ~_USUAL
    )  # fmt: skip


def _are_equal(one: memoryview, other: memoryview) -> bool:
    return len(one) == len(other) and np.array_equal(np.frombuffer(one, np.uint8), np.frombuffer(other, np.uint8))


def _ensure_plain(batch: RecordBatch) -> None:
    """Raises if the timestamps of a batch are not those of its records, or if it has attributes that are not usual."""
    if batch.has_brokers_time:
        raise Doubt("a broker has set the timestamps")
    if batch.attributes & ~_USUAL:
        raise Doubt("batches have unusual attributes")
