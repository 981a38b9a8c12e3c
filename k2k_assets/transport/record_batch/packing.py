"""Packs records into batches."""

from __future__ import annotations

from collections.abc import Sequence

from k2k_assets.transport.record_batch.compression import compressed
from k2k_assets.transport.record_batch.outgoing import OutgoingBatch
from k2k_assets.transport.record_batch.record_codec import RawHeaders

Record = tuple[bytes | None, bytes | None, RawHeaders, int]
"""Key, value, headers and timestamp."""


def packed(records: Sequence[Record], codec: int = 0) -> OutgoingBatch:
    """A batch of records.

    Args:
        records: The records; at least one.
        codec: Number of the compression.
    """
    times = [record[3] for record in records]
    first = times[0]
    content = b"".join(
        packed_record(delta, key, value, headers, time - first)
        for delta, (key, value, headers, time) in enumerate(records)
    )
    used, payload = compressed(codec, content)
    return OutgoingBatch(used, first, max(times), len(records), payload, range(len(records)))


def packed_record(
    delta: int, key: bytes | None, value: bytes | None, headers: RawHeaders = (), later: int = 0
) -> bytes:
    """A record with its length before it.

    Args:
        delta: Its index in the batch.
        key: Its key.
        value: Its value.
        headers: Its headers.
        later: How much later than the batch's base timestamp it is.
    """
    body = b"\0" + varint(later) + varint(delta) + _field(key) + _field(value) + packed_headers(headers)
    return varint(len(body)) + body


def packed_headers(headers: RawHeaders) -> bytes:
    """Headers with their number before them."""
    return varint(len(headers)) + b"".join(_field(name) + _field(value) for name, value in headers)


def _field(content: bytes | None) -> bytes:
    return b"\1" if content is None else varint(len(content)) + content


def varint(value: int) -> bytes:
    """A signed number (zigzag), seven bits a byte."""
    left = value << 1 if value >= 0 else ~value << 1 | 1
    if left < 0x80:
        return _SHORT[left]
    found = bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


_SHORT = [bytes([value]) for value in range(0x80)]
