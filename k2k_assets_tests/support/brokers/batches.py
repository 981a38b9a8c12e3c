"""Record batches as brokers send them, packed by hand: also such as no broker would send."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import google_crc32c
import pyarrow as pa

NO_PRODUCER = -1
_HEADER = struct.Struct(">qiibIhiqqqhii")
_CHECKED_FROM = 21
_PREFIX = 12


class PackedRecord(NamedTuple):
    """A record; `delta` and `later` are relative to its batch."""

    delta: int = 0
    key: bytes | None = None
    value: bytes | None = b"value"
    headers: Sequence[tuple[bytes, bytes | None]] = ()
    later: int = 0


def varint(value: int) -> bytes:
    """Zigzag, seven bits a byte."""
    left = value * 2 if value >= 0 else -value * 2 - 1
    packed = bytearray()
    while left > 0x7F:
        packed.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*packed, left])


def _field(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def pack_record(record: PackedRecord) -> bytes:
    """One record with its length before it."""
    headers = b"".join(_field(name) + _field(value) for name, value in record.headers)
    body = b"\0" + varint(record.later) + varint(record.delta) + _field(record.key) + _field(record.value)
    body += varint(len(record.headers)) + headers
    return varint(len(body)) + body


def _gzip(content: bytes) -> bytes:
    packer = zlib.compressobj(wbits=31)
    return packer.compress(content) + packer.flush()


def _streamed(name: str) -> Callable[[bytes], bytes]:
    def pack(content: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, name) as stream:
            stream.write(content)
        packed: bytes = sink.getvalue().to_pybytes()
        return packed

    return pack


def _snappy(content: bytes) -> bytes:
    packed: bytes = pa.Codec("snappy").compress(content, asbytes=True)
    return packed


def xerial_snappy(content: bytes, block: int = 100) -> bytes:
    """As old Java clients frame it."""
    blocks = [_snappy(content[at : at + block]) for at in range(0, len(content), block)]
    framed = b"".join(struct.pack(">i", len(each)) + each for each in blocks)
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + framed


def _lz4(content: bytes) -> bytes:
    """In blocks that do not need each other, as producers do: brokers take no others."""
    codec = pa.Codec("lz4_raw")
    blocks = [codec.compress(content[at : at + 65536], asbytes=True) for at in range(0, len(content), 65536)]
    return b"\x04\x22\x4d\x18\x60\x40\x82" + b"".join(struct.pack("<I", len(b)) + b for b in blocks) + bytes(4)


PACK: Mapping[int, Callable[[bytes], bytes]] = {
    0: bytes,
    1: _gzip,
    2: _snappy,
    3: _lz4,
    4: _streamed("zstd"),
}
"""Compression by Kafka's number."""


def pack_batch(
    base: int,
    records: Sequence[PackedRecord],
    *,
    attributes: int = 0,
    last_delta: int | None = None,
    producer: int = NO_PRODUCER,
    producer_epoch: int = 0,
    sequence: int = 0,
    epoch: int = 0,
    timestamp: int = 1000,
    latest: int = 2000,
    payload: bytes | None = None,
    count: int | None = None,
    magic: int = 2,
) -> bytes:
    """A batch.

    Args:
        base: Its first offset.
        records: Its records.
        attributes: With the codec in the lowest three bits.
        last_delta: Where it ends; None: with its last record.
        producer: Its producer's id.
        producer_epoch: Its producer's epoch.
        sequence: Sequence of its first record.
        epoch: Leader epoch.
        timestamp: Base timestamp.
        latest: Maximum timestamp.
        payload: In the place of the packed records.
        count: In the place of their number.
        magic: Of the format.
    """
    if last_delta is None:
        last_delta = records[-1].delta if records else 0
    if payload is None:
        payload = PACK[attributes & 7](b"".join(map(pack_record, records)))
    head = _HEADER.pack(
        base, _HEADER.size - _PREFIX + len(payload), epoch, magic, 0, attributes, last_delta, timestamp, latest,
        producer, producer_epoch, sequence, len(records) if count is None else count,
    )  # fmt: skip
    return checked(head + payload)


def checked(batch: bytes) -> bytes:
    """A batch with the checksum that its content has."""
    crc = google_crc32c.value(batch[_CHECKED_FROM:])
    return batch[:17] + struct.pack(">I", crc) + batch[_CHECKED_FROM:]


def marker(base: int, producer: int, abort: bool, epoch: int = 0) -> bytes:
    """A control batch that ends a transaction."""
    key = struct.pack(">hh", 0, 0 if abort else 1)
    record = PackedRecord(0, key, struct.pack(">hi", 0, 0))
    return pack_batch(base, [record], attributes=16 | 32, producer=producer, epoch=epoch)
