"""Compression as brokers take it."""

from __future__ import annotations

import struct
import zlib
from functools import cache
from typing import TYPE_CHECKING

from k2k_assets.transport.record_batch.batches.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_LEVEL = -1
"""In the place of a level, where the codec's own is meant."""
_GZIP_WINDOW = 31
_ZSTD_LEVEL = 3  # as librdkafka and Java; Arrow's own is 1
_NAMES = {SNAPPY: "snappy", LZ4: "lz4_raw", ZSTD: "zstd"}
# Version 1, blocks that do not need each other, of 64 KB at most, and the sum of these two bytes.
_LZ4_HEADER = bytes.fromhex("04224d18 60 40 82")
_LZ4_BLOCK = 64 * 1024
_LZ4_AS_IS = 1 << 31
_LZ4_SIZE = struct.Struct("<I")
_LZ4_END = bytes(4)


def compressed(codec: int, content: bytes, level: int = DEFAULT_LEVEL) -> tuple[int, bytes]:
    """The records of a batch, compressed if that makes them smaller.

    Args:
        codec: Number of the compression.
        content: The records.
        level: As librdkafka's `compression.level`: gzip 0 to 9, lz4 0 to 12, zstd 1 to 22. Snappy has none.

    Returns:
        The number of the compression that was used, and the content.
    """
    if codec == NONE:
        return NONE, content
    made = _COMPRESSORS[codec](content, level)
    return (codec, made) if len(made) < len(content) else (NONE, content)


def _gzip(content: bytes, level: int) -> bytes:
    packer = zlib.compressobj(min(level, 9), wbits=_GZIP_WINDOW)
    return packer.compress(content) + packer.flush()


def _snappy(content: bytes, level: int) -> bytes:
    made: bytes = _arrow(SNAPPY, DEFAULT_LEVEL).compress(content, asbytes=True)
    return made


def _zstd(content: bytes, level: int) -> bytes:
    made: bytes = _arrow(ZSTD, level if level > 0 else _ZSTD_LEVEL).compress(content, asbytes=True)
    return made


def _lz4(content: bytes, level: int) -> bytes:
    """An own frame: in those of Arrow each block needs the one before it, which brokers refuse."""
    codec = _arrow(LZ4, min(level, 12) if level > 0 else DEFAULT_LEVEL)
    pieces = [_LZ4_HEADER]
    whole = memoryview(content)
    for at in range(0, len(content), _LZ4_BLOCK):
        block = whole[at : at + _LZ4_BLOCK]
        made = codec.compress(block, asbytes=True)
        if len(made) < len(block):
            pieces += (_LZ4_SIZE.pack(len(made)), made)
        else:
            pieces += (_LZ4_SIZE.pack(len(block) | _LZ4_AS_IS), bytes(block))
    pieces.append(_LZ4_END)
    return b"".join(pieces)


@cache
def _arrow(codec: int, level: int) -> pa.Codec:
    import pyarrow as pa

    return pa.Codec(_NAMES[codec], None if level == DEFAULT_LEVEL else level)


_COMPRESSORS = {GZIP: _gzip, SNAPPY: _snappy, LZ4: _lz4, ZSTD: _zstd}
