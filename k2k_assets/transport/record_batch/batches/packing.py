"""Packs records into batches, of which none is larger than the target takes.

```
length | attributes | time delta | offset delta | key  value | headers
                                                  body         section
```
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, repeat
from operator import add
from typing import NamedTuple

from k2k_assets.transport.record_batch.batches.batch import HEADER
from k2k_assets.transport.record_batch.batches.codecs import NONE
from k2k_assets.transport.record_batch.batches.compression import compressed
from k2k_assets.transport.record_batch.batches.outgoing import OutgoingBatch
from k2k_assets.transport.record_batch.batches.packing_settings import PackingSettings
from k2k_assets.transport.record_batch.batches.record_codec import RawHeaders
from k2k_assets.transport.record_batch.batches.varints import first_varints, length, varint, varints

NO_SECTION = b"\0"
"""The section of a record without headers."""
# Of two timestamps further apart the difference may be a number of more than 64 bits.
WIDEST = 1 << 62
NO_LIMIT = 2**31 - 1
_LEAST_BEFORE = 4  # bytes of a record before its body

Record = tuple[bytes | None, bytes | None, RawHeaders, int]
"""Key, value, headers and timestamp."""


@dataclass(slots=True)
class PackedRecords:
    """Records of which all but their places and times is packed, as columns of one length.

    Attributes:
        base_timestamp: To which their times are relative.
        laters: How much later each is.
        bodies: Keys and values; with the headers if there are no sections.
        sections: Headers; or the same for all; or None.
        offsets: Their source offsets.
        skipped: Bytes before key and value, if the bodies have all from the attributes on: their times and places stay.
    """

    base_timestamp: int
    laters: Sequence[int]
    bodies: Sequence[bytes]
    sections: Sequence[bytes] | bytes | None
    offsets: Sequence[int]
    skipped: Sequence[int] | None = None

    def between(self, first: int, end: int) -> PackedRecords:
        """Some of them, to which other places are given."""
        sections, bodies = self.sections, self.bodies[first:end]
        if self.skipped is not None:
            bodies = [body[skipped:] for body, skipped in zip(bodies, self.skipped[first:end], strict=True)]
        return PackedRecords(
            self.base_timestamp,
            self.laters[first:end],
            bodies,
            sections if sections is None or isinstance(sections, bytes) else sections[first:end],
            self.offsets[first:end],
        )

    def sizes(self) -> list[int]:
        """Bytes of the body and the section of each."""
        sizes = map(len, self.bodies)
        if isinstance(self.sections, bytes):
            return list(map(add, sizes, repeat(len(self.sections))))
        return list(map(add, sizes, map(len, self.sections)) if self.sections is not None else sizes)

    def least_size(self) -> int:
        """Bytes of a batch of them, or some less."""
        return HEADER + sum(self.sizes()) + len(self.bodies) * (_LEAST_BEFORE if self.skipped is None else 1)

    def content(self) -> bytes:
        """Them as they lie in a batch."""
        if self.skipped is not None:
            columns: list[Iterable[bytes]] = [varints(self.sizes()), self.bodies]
        else:
            laters, deltas = varints(self.laters), first_varints(len(self.bodies))
            sizes = list(map(add, map(add, map(len, laters), map(len, deltas)), map(add, self.sizes(), repeat(1))))
            columns = [varints(sizes), repeat(b"\0"), laters, deltas, self.bodies]
        if self.sections is not None:
            columns.append(repeat(self.sections) if isinstance(self.sections, bytes) else self.sections)
        return b"".join(chain.from_iterable(zip(*columns, strict=False)))


def packed(records: Sequence[Record], codec: int = NONE) -> OutgoingBatch:
    """One batch of records whose times are close to each other.

    Args:
        records: The records; at least one.
        codec: Number of the compression.
    """
    keys, values, headers, times = zip(*records, strict=True)
    sections = list(map(packed_headers, headers))
    columns = RecordColumns(times, keys, values, sections, range(len(records)))
    return next(batches_of_columns(columns, codec, PackingSettings(NO_LIMIT), NO_LIMIT))


class RecordColumns(NamedTuple):
    """Records as columns of one length, at least one; only the headers are packed, or the same for all."""

    times: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    sections: Sequence[bytes] | bytes
    offsets: Sequence[int]


def batches_of_columns(
    columns: RecordColumns, codec: int, settings: PackingSettings, largest: int
) -> Iterator[OutgoingBatch]:
    """Batches of records of which nothing is packed yet.

    Args:
        columns: The records.
        codec: Number of the compression.
        settings: How large a batch may be.
        largest: About how many bytes of records become one batch.
    """
    times = columns.times
    bodies = [_field(key) + _field(value) for key, value in zip(columns.keys, columns.values, strict=True)]
    for first, end in _close_times(times):
        base = times[first]
        laters = [time - base for time in times]
        close = PackedRecords(base, laters, bodies, columns.sections, columns.offsets).between(first, end)
        sizes = close.sizes()
        for begin, behind in _cut(sizes, -(-sum(sizes) // largest)):
            yield from batches_of(close.between(begin, behind), codec, settings)


def batches_of(records: PackedRecords, codec: int, settings: PackingSettings) -> Iterator[OutgoingBatch]:
    """Batches of records: one, or more if it would be too large.

    Args:
        records: The records; at least one.
        codec: Number of the compression.
        settings: How large a batch may be.
    """
    count, limit = len(records.bodies), settings.batch_bytes
    if codec == NONE and count > 1 and (least := records.least_size()) > limit:
        yield from _parts(records, -(-least // limit), codec, settings)
        return
    used, payload = compressed(codec, records.content(), settings.level)
    size = HEADER + len(payload)
    if size <= limit or count == 1:
        latest = records.base_timestamp + max(records.laters)
        yield OutgoingBatch(used, records.base_timestamp, latest, count, payload, one_run(records.offsets))
        return
    yield from _parts(records, -(-size // limit), codec, settings)


def _parts(records: PackedRecords, count: int, codec: int, settings: PackingSettings) -> Iterator[OutgoingBatch]:
    for first, end in _cut(records.sizes(), count):
        yield from batches_of(records.between(first, end), codec, settings)


def _cut(sizes: Sequence[int], parts: int) -> Iterator[tuple[int, int]]:
    """Cuts records into parts of about the same size, of which none is empty."""
    ends = list(accumulate(sizes))
    most = max(1, ends[-1] // parts)
    first, wanted = 0, most
    for index, end in enumerate(ends):
        if end > wanted and index > first:
            yield first, index
            first, wanted = index, ends[index - 1] + most
    yield first, len(sizes)


def _close_times(times: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Cuts records where their times are further apart than a batch can tell: nearly never."""
    first = 0
    if max(times) - min(times) >= WIDEST:
        for index, time in enumerate(times):
            if abs(time - times[first]) >= WIDEST:
                yield first, index
                first = index
    yield first, len(times)


def packed_headers(headers: RawHeaders) -> bytes:
    """Headers with their number before them."""
    return varint(len(headers)) + packed_pairs(headers) if headers else NO_SECTION


def packed_pairs(headers: RawHeaders) -> bytes:
    """Headers without their number."""
    return b"".join([_field(name) + _field(value) for name, value in headers])


def _field(content: bytes | None) -> bytes:
    return b"\1" if content is None else length(len(content)) + content


def one_run(offsets: Sequence[int]) -> Sequence[int]:
    """Rising offsets; as a range, which takes no memory, if they have no gap."""
    first, end = offsets[0], offsets[-1] + 1
    return range(first, end) if end - first == len(offsets) else offsets
