"""The records in a batch: each is its length, and fields of which most are numbers of one byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from k2k_assets.core.words import plural
from k2k_assets.transport.record_batch.batches.batch import RecordBatch
from k2k_assets.transport.record_batch.batches.codecs import decompressed
from k2k_assets.transport.record_batch.batches.varints import number
from k2k_assets.transport.record_batch.errors import Unreadable

_BEYOND = 2**63
_NULL = 1  # -1 in zigzag, in the place of a length
RawHeaders = Sequence[tuple[bytes, bytes | None]]
"""Names as they are on the wire, and values."""
_NONE: RawHeaders = ()


@dataclass(slots=True)
class DecodedBatch:
    """Records of a batch, as columns of one length.

    Attributes:
        offsets: The offset of each.
        timestamps: Milliseconds since the epoch, -1 for none.
        keys: Key of each, or None.
        values: Value of each, or None.
        headers: The headers of each.
        size: Bytes of the batch, decompressed; 0 for records that were chosen out of others.
    """

    offsets: list[int]
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[RawHeaders]
    size: int = 0


def decoded(batch: RecordBatch) -> DecodedBatch:
    """All records of a batch.

    Raises:
        Unreadable: They are damaged, or more or less than the header says.
    """
    try:
        content = decompressed(batch.codec, batch.payload)
        return _decoded(batch, content)
    except IndexError:
        raise Unreadable("its records end too early", batch.base) from None
    except Unreadable as error:
        raise Unreadable(error.words, batch.base) from None


def _decoded(batch: RecordBatch, content: bytes) -> DecodedBatch:
    """Walks the records. Numbers of one or two bytes, as most are, are read in place: calls would double the time."""
    deltas: list[int] = []
    found = DecodedBatch(deltas, [], [], [], [], len(content))
    add_delta, add_later, add_headers = deltas.append, found.timestamps.append, found.headers.append
    add_key, add_value = found.keys.append, found.values.append
    at, behind = 0, len(content)
    for _ in range(batch.records):
        low, high = content[at], content[at + 1]
        if low >= 0x80 > high and not low & 1:
            size, at = (low & 0x7F | high << 7) >> 1, at + 2
        else:
            size, at = number(content, at)
        end = at + size
        if size < 0 or end > behind:
            raise Unreadable("a record is longer than the batch")
        at += 1  # attributes, which mean nothing
        low = content[at]
        if low < 0x80:
            add_later(low >> 1 ^ -(low & 1))
            at += 1
        else:
            later, at = number(content, at)
            add_later(later)
        low, high = content[at], content[at + 1]
        if low >= 0x80 > high and not low & 1:
            add_delta((low & 0x7F | high << 7) >> 1)
            at += 2
        else:
            delta, at = number(content, at)
            add_delta(delta)
        if content[at] == _NULL:
            add_key(None)
            at += 1
        else:
            key, at = _bytes(content, at, end)
            add_key(key)
        low, high = content[at], content[at + 1]
        if low >= 0x80 > high and not low & 1:
            at += 2
            after = at + ((low & 0x7F | high << 7) >> 1)
            if after > end:
                raise Unreadable("a field is longer than its record")
            add_value(content[at:after])
            at = after
        else:
            value, at = _bytes(content, at, end)
            add_value(value)
        if content[at]:
            headers, at = _headers(content, at, end)
            add_headers(headers)
        else:
            add_headers(_NONE)
            at += 1
        if at != end:
            raise Unreadable("a record is not as long as it says")
    if at != behind:
        raise Unreadable("something lies behind its last record")
    _ensure_rising(deltas, batch.end - batch.base)
    base, first = batch.base, batch.base_timestamp
    found.offsets = [base + delta for delta in deltas]
    if batch.has_brokers_time:
        found.timestamps = [batch.max_timestamp] * batch.records
    else:
        found.timestamps = [first + later for later in found.timestamps]
        if batch.records and not -_BEYOND <= min(found.timestamps) <= max(found.timestamps) < _BEYOND:
            raise Unreadable("a timestamp of more than 64 bits")
    return found


def _ensure_rising(deltas: list[int], end: int) -> None:
    if deltas == list(range(end)):
        return
    for before, after in pairwise([-1, *deltas, end]):
        if not before < after:
            raise Unreadable(f"a record {after} behind one {before}, of {end}")


def _bytes(content: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    size, at = number(content, at)
    if size < 0:
        if size == -1:
            return None, at
        raise Unreadable(plural(size, "byte"))
    after = at + size
    if after > end:
        raise Unreadable("a field is longer than its record")
    return content[at:after], after


def _headers(content: bytes, at: int, end: int) -> tuple[RawHeaders, int]:
    count, at = number(content, at)
    if not 0 <= count <= end - at:
        raise Unreadable(f"{plural(count, 'header')} in {plural(end - at, 'byte')}")
    headers: list[tuple[bytes, bytes | None]] = []
    for _ in range(count):
        name, at = _bytes(content, at, end)
        value, at = _bytes(content, at, end)
        if name is None:
            raise Unreadable("a header without a name")
        headers.append((name, value))
    return headers, at


def headers_at(content: bytes, at: int, end: int) -> RawHeaders:
    """The headers that lie between two places of a batch's records, with their number before them.

    Raises:
        Unreadable: They are damaged.
    """
    try:
        headers, at = _headers(content, at, end)
    except IndexError:
        raise Unreadable("its records end too early") from None
    if at != end:
        raise Unreadable("a record is not as long as it says")
    return headers
