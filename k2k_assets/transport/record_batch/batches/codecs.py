"""Decompression within a bound: a small batch may claim to be huge (a bomb), or be it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from k2k_assets.transport.record_batch.errors import Unreadable

if TYPE_CHECKING:
    import pyarrow as pa

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
LARGEST = 256 * 1024 * 1024
"""A batch of more bytes is refused. Producers make batches of `max.request.size` bytes at most, 1 MB by default."""
AT_ONCE = 32 * 1024 * 1024
"""Several batches are decompressed beside each other until they have so many bytes."""
# Larger pieces take twice the time: the memory of each is new to the process.
_PIECE = 64 * 1024
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16
_LENGTH = struct.Struct(">i")
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_BLOCKS_ARE_INDEPENDENT = 0x20
_STREAMS = {GZIP: "gzip", LZ4: "lz4", ZSTD: "zstd"}


def is_read_by_brokers(codec: int, packed: memoryview) -> bool:
    """Whether Apache Kafka's brokers read a compression, as far as its first bytes tell.

    They refuse LZ4 whose blocks need the ones before them. Other sources may have taken it: they do not look into
    batches.

    Args:
        codec: Number of the compression.
        packed: What is in the batch.
    """
    if codec != LZ4:
        return True
    head = bytes(packed[:5])  # views compare slowly
    return head[:4] == _LZ4_MAGIC and len(head) > 4 and bool(head[4] & _LZ4_BLOCKS_ARE_INDEPENDENT)


def decompressed(codec: int, packed: memoryview, largest: int = LARGEST) -> bytes:
    """The records of a batch.

    Args:
        codec: Number of the compression.
        packed: What is in the batch.
        largest: Size limit, in bytes.

    Raises:
        Unreadable: It is damaged, or larger.
    """
    if codec == NONE:
        return bytes(packed)
    try:
        if codec == SNAPPY:
            return _snappy(packed, largest)
        return _stream(_STREAMS[codec], packed, largest)
    except (OSError, ValueError) as error:  # pyarrow's own are of these
        raise Unreadable(f"it cannot be decompressed: {error}") from None


def _too_large(largest: int) -> Unreadable:
    return Unreadable(f"it decompresses to more than {largest} bytes")


def _snappy(packed: memoryview, largest: int) -> bytes:
    import pyarrow as pa

    codec = pa.Codec("snappy")
    if packed[: len(_XERIAL)] != _XERIAL:
        return _raw_snappy(codec, packed, largest, largest)
    pieces, left, at = [], largest, _XERIAL_HEADER
    while at < len(packed):
        if packed[at : at + len(_XERIAL)] == _XERIAL:  # what was put together of several streams
            at += _XERIAL_HEADER
            continue
        if len(packed) - at < _LENGTH.size:
            raise Unreadable("its snappy stream is cut off")
        (size,) = _LENGTH.unpack_from(packed, at)
        at += _LENGTH.size
        if not 0 <= size <= len(packed) - at:
            raise Unreadable(f"a snappy block of {size} bytes, and {len(packed) - at} are there")
        pieces.append(_raw_snappy(codec, packed[at : at + size], left, largest))
        left -= len(pieces[-1])
        at += size
    return b"".join(pieces)


def _raw_snappy(codec: pa.Codec, packed: memoryview, left: int, largest: int) -> bytes:
    size = 0
    for shift, byte in zip(range(0, 35, 7), packed, strict=False):
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    else:
        raise Unreadable("a snappy block without its size")
    if size > left:
        raise _too_large(largest)
    found: bytes = codec.decompress(packed, size, asbytes=True)
    return found


def _stream(name: str, packed: memoryview, largest: int) -> bytes:
    import pyarrow as pa

    pieces, left = [], largest
    with pa.CompressedInputStream(pa.BufferReader(packed), name) as stream:
        while piece := stream.read(min(_PIECE, left + 1)):
            pieces.append(piece)
            left -= len(piece)
            if left < 0:
                raise _too_large(largest)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
