"""Compressed content as other producers may frame it: what the formats allow is read, and what is cut off is not."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from k2k_assets.core.stops.reasons.records import BatchUnreadable
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.errors import SourceStopped
from k2k_assets.transport.record_batch.batches.batch import RecordBatch
from k2k_assets.transport.record_batch.batches.codecs import GZIP, LZ4, SNAPPY, ZSTD, decompressed
from k2k_assets.transport.record_batch.batches.columns import BatchRecords, arrived
from k2k_assets.transport.record_batch.errors import Unreadable
from k2k_assets.transport.record_batch.reading.walk import walk
from k2k_assets_tests.support.brokers.batches import (
    PACK,
    PackedRecord,
    lz4_as_producers_do,
    pack_batch,
    pack_record,
    xerial_snappy,
)
from k2k_assets_tests.support.brokers.xxhash32 import xxhash32

CONTENT = bytes(range(256)) * 800 + b"the end"
"""More than three blocks of 64 KB."""
SKIPPABLE = struct.pack("<II", 0x184D2A50, 5) + b"aside"
MEMBERS = 100_000


def _lz4(content: bytes, flags: int) -> bytes:
    """A frame of blocks that are not compressed, with the checksums and the size that its flags ask for."""
    size = struct.pack("<Q", len(content)) if flags & 8 else b""
    descriptor = bytes([0x40 | flags, 0x40]) + size
    framed = b"\x04\x22\x4d\x18" + descriptor + bytes([xxhash32(descriptor) >> 8 & 0xFF])
    for block in _pieces(content, 65536):
        framed += struct.pack("<I", len(block) | 1 << 31) + block
        framed += struct.pack("<I", xxhash32(block)) if flags & 16 else b""
    return framed + bytes(4) + (struct.pack("<I", xxhash32(content)) if flags & 4 else b"")


def _pieces(content: bytes, size: int) -> Iterator[bytes]:
    return (content[at : at + size] for at in range(0, len(content), size))


def _raw_snappy(content: bytes) -> bytes:
    packed: bytes = pa.Codec("snappy").compress(content, asbytes=True)
    return packed


def _sized_zstd(content: bytes) -> bytes:
    packed: bytes = pa.Codec("zstd").compress(content, asbytes=True)
    return packed


ODD = {
    "snappy, raw": (SNAPPY, _raw_snappy(CONTENT)),
    "snappy, framed in blocks of 32 KB": (SNAPPY, xerial_snappy(CONTENT, 32768)),
    "snappy, several framed streams": (SNAPPY, b"".join(map(xerial_snappy, _pieces(CONTENT, 100_000)))),
    "zstd, with its size": (ZSTD, _sized_zstd(CONTENT)),
    "zstd, without its size": (ZSTD, PACK[ZSTD](CONTENT)),
    "zstd, several frames": (ZSTD, b"".join(map(_sized_zstd, _pieces(CONTENT, 70_000)))),
    "zstd, frames of both kinds, and an empty one": (
        ZSTD,
        _sized_zstd(CONTENT[:10]) + _sized_zstd(b"") + PACK[ZSTD](CONTENT[10:]),
    ),
    "zstd, with something to be skipped": (ZSTD, SKIPPABLE + _sized_zstd(CONTENT) + SKIPPABLE),
    "lz4, blocks of their own": (LZ4, lz4_as_producers_do(CONTENT)),
    "lz4, linked blocks": (LZ4, PACK[LZ4](CONTENT)),
    "lz4, several frames": (LZ4, b"".join(map(lz4_as_producers_do, _pieces(CONTENT, 100_000)))),
    "lz4, all checksums and the size": (LZ4, _lz4(CONTENT, 32 | 16 | 8 | 4)),
    "lz4, linked blocks with checksums": (LZ4, _lz4(CONTENT, 16)),
    "lz4, with something to be skipped": (LZ4, SKIPPABLE + lz4_as_producers_do(CONTENT) + SKIPPABLE),
    "gzip": (GZIP, PACK[GZIP](CONTENT)),
    "gzip, several members": (GZIP, b"".join(map(PACK[GZIP], _pieces(CONTENT, 70_000)))),
}


@pytest.mark.parametrize("kind", ODD)
def test_what_a_format_allows_is_read(kind: str) -> None:
    codec, packed = ODD[kind]
    assert decompressed(codec, memoryview(packed)) == CONTENT


@pytest.mark.parametrize("kind", [kind for kind in ODD if "skipped" not in kind])
def test_what_is_cut_off_is_not(kind: str) -> None:
    codec, packed = ODD[kind]
    for left in (len(packed) - 1, len(packed) - 2, len(packed) // 2):
        with pytest.raises(Unreadable):
            decompressed(codec, memoryview(packed)[:left])


@pytest.mark.parametrize("kind", ODD)
def test_what_is_larger_than_its_limit_is_not_read(kind: str) -> None:
    codec, packed = ODD[kind]
    with pytest.raises(Unreadable, match=f"more than {len(CONTENT) - 1} bytes"):
        decompressed(codec, memoryview(packed), len(CONTENT) - 1)


@pytest.mark.parametrize("at", [100, -6])
def test_a_checksum_that_is_wrong_is_found(at: int) -> None:
    """One in a block, then the one of the last block."""
    packed = bytearray(_lz4(CONTENT, 32 | 16))
    packed[at] ^= 1
    with pytest.raises(Unreadable, match="cannot be decompressed"):
        decompressed(LZ4, memoryview(packed))


@pytest.mark.parametrize("codec", [GZIP, ZSTD, SNAPPY])
def test_very_many_small_frames_take_no_longer_than_others(codec: int) -> None:
    """Each costs the same, however many follow: a batch of a few MB would keep the process busy for minutes."""

    def seconds(count: int) -> float:
        packed = memoryview((xerial_snappy(b"x") if codec == SNAPPY else PACK[codec](b"x")) * count)
        began = time.process_time()
        assert decompressed(codec, packed) == b"x" * count
        return time.process_time() - began

    few = max(seconds(MEMBERS // 10) for _ in range(3))
    assert min(seconds(MEMBERS) for _ in range(3)) < 40 * few


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_what_cannot_be_decompressed_stops_with_its_offset(codec: int) -> None:
    records = [PackedRecord(n, value=bytes(1000)) for n in range(5)]
    cut = PACK[codec](b"".join(map(pack_record, records)))[:-3]
    log = memoryview(pack_batch(700, [PackedRecord()]) + pack_batch(701, records, attributes=codec, payload=cut))
    batches: list[RecordBatch] = walk(log, 700, 706, []).batches
    tp = TopicPartition("from", 3)
    found = [each for each in (arrived(batch, 700) for batch in batches) if each is not None]
    with pytest.raises(SourceStopped) as stopped:
        BatchRecords(tp, found).columns().values()
    assert isinstance(stopped.value.reason, BatchUnreadable)
    assert str(stopped.value).startswith("from-3: ")
    assert "701" in str(stopped.value)
