"""Compressed content as other producers may frame it, or as sources that are not Apache Kafka take it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import pyarrow as pa

from k2k_assets.transport.record_batch.batches.codecs import GZIP, LZ4, SNAPPY, ZSTD
from k2k_assets_tests.support.brokers.batches import PACK, xerial_snappy
from k2k_assets_tests.support.brokers.xxhash32 import xxhash32

_SKIPPABLE = struct.pack("<II", 0x184D2A50, 5) + b"aside"

Frame = Callable[[bytes], bytes]


def lz4_with(flags: int) -> Frame:
    """Frames of blocks that are not compressed, with the checksums and the size that its flags ask for."""

    def framed(content: bytes) -> bytes:
        size = struct.pack("<Q", len(content)) if flags & 8 else b""
        descriptor = bytes([0x40 | flags, 0x40]) + size
        made = b"\x04\x22\x4d\x18" + descriptor + bytes([xxhash32(descriptor) >> 8 & 0xFF])
        for block in _pieces(content, 65536):
            made += struct.pack("<I", len(block) | 1 << 31) + block
            made += struct.pack("<I", xxhash32(block)) if flags & 16 else b""
        return made + bytes(4) + (struct.pack("<I", xxhash32(content)) if flags & 4 else b"")

    return framed


def _pieces(content: bytes, size: int) -> Iterator[bytes]:
    return (content[at : at + size] for at in range(0, len(content), size))


def _several(frame: Frame, size: int) -> Frame:
    return lambda content: b"".join(map(frame, _pieces(content, size)))


def _between_skippable(frame: Frame) -> Frame:
    return lambda content: _SKIPPABLE + frame(content) + _SKIPPABLE


def _raw_snappy(content: bytes) -> bytes:
    packed: bytes = pa.Codec("snappy").compress(content, asbytes=True)
    return packed


def _linked_lz4(content: bytes) -> bytes:
    packed: bytes = pa.Codec("lz4").compress(content, asbytes=True)
    return packed


def _sized_zstd(content: bytes) -> bytes:
    packed: bytes = pa.Codec("zstd").compress(content, asbytes=True)
    return packed


def _mixed_zstd(content: bytes) -> bytes:
    return _sized_zstd(content[:10]) + _sized_zstd(b"") + PACK[ZSTD](content[10:])


ODD_FRAMES: dict[str, tuple[int, Frame]] = {
    "snappy, raw": (SNAPPY, _raw_snappy),
    "snappy, framed in blocks of 32 KB": (SNAPPY, lambda content: xerial_snappy(content, 32768)),
    "snappy, several framed streams": (SNAPPY, _several(xerial_snappy, 100_000)),
    "zstd, with its size": (ZSTD, _sized_zstd),
    "zstd, without its size": (ZSTD, PACK[ZSTD]),
    "zstd, several frames": (ZSTD, _several(_sized_zstd, 70_000)),
    "zstd, frames of both kinds, and an empty one": (ZSTD, _mixed_zstd),
    "zstd, with something to be skipped": (ZSTD, _between_skippable(_sized_zstd)),
    "lz4, blocks of their own": (LZ4, PACK[LZ4]),
    "lz4, linked blocks": (LZ4, _linked_lz4),
    "lz4, several frames": (LZ4, _several(PACK[LZ4], 100_000)),
    "lz4, all checksums and the size": (LZ4, lz4_with(32 | 16 | 8 | 4)),
    "lz4, linked blocks with checksums": (LZ4, lz4_with(16)),
    "lz4, with something to be skipped": (LZ4, _between_skippable(PACK[LZ4])),
    "gzip": (GZIP, PACK[GZIP]),
    "gzip, several members": (GZIP, _several(PACK[GZIP], 70_000)),
}
"""The number of the codec, and what frames content by it."""
