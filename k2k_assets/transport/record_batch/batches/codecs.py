"""Decompression within a bound: a small batch may claim to be huge (a bomb), or be it."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from k2k_assets.transport.record_batch.errors import Unreadable

if TYPE_CHECKING:
    import pyarrow as pa

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
LARGEST = 256 * 1024 * 1024
"""A batch of more bytes is refused. Producers make batches of `max.request.size` bytes at most, 1 MB by default."""
# Larger pieces take twice the time: the memory of each is new to the process.
_PIECE = 64 * 1024
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16
_LENGTH = struct.Struct(">i")
_GZIP_WINDOW = 31
_STREAMS = {LZ4: "lz4", ZSTD: "zstd"}


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
        if codec == GZIP:
            return _gzip(packed, largest)
        if codec == SNAPPY:
            return _snappy(packed, largest)
        return _stream(_STREAMS[codec], packed, largest)
    except (OSError, ValueError, zlib.error, struct.error) as error:  # pyarrow's own are of the first two
        raise Unreadable(f"it cannot be decompressed: {error}") from None


def _too_large(largest: int) -> Unreadable:
    return Unreadable(f"it decompresses to more than {largest} bytes")


def _gzip(packed: memoryview, largest: int) -> bytes:
    pieces, left = [], largest
    rest: bytes | memoryview = packed
    while rest:
        decompressor = zlib.decompressobj(_GZIP_WINDOW)
        pieces.append(decompressor.decompress(rest, left + 1))
        left -= len(pieces[-1])
        if left < 0:
            raise _too_large(largest)
        if not decompressor.eof:
            raise Unreadable("its gzip stream is cut off")
        rest = decompressor.unused_data  # what was put together of several streams
    return b"".join(pieces)


def _snappy(packed: memoryview, largest: int) -> bytes:
    import pyarrow as pa

    codec = pa.Codec("snappy")
    if packed[: len(_XERIAL)] != _XERIAL:
        return _raw_snappy(codec, packed, largest)
    pieces, left, at = [], largest, _XERIAL_HEADER
    while at < len(packed):
        (size,) = _LENGTH.unpack_from(packed, at)
        at += _LENGTH.size
        if not 0 <= size <= len(packed) - at:
            raise Unreadable(f"a snappy block of {size} bytes, and {len(packed) - at} are there")
        pieces.append(_raw_snappy(codec, packed[at : at + size], left))
        left -= len(pieces[-1])
        at += size
    return b"".join(pieces)


def _raw_snappy(codec: pa.Codec, packed: memoryview, largest: int) -> bytes:
    size = 0
    for shift, byte in zip(range(0, 35, 7), packed, strict=False):
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    else:
        raise Unreadable("a snappy block without its size")
    if size > largest:
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
