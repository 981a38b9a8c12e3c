"""Compressed content as other producers may frame it: what the formats allow is read, and what is cut off is not."""

from __future__ import annotations

import time

import pytest

from k2k_assets.core.stops.reasons.records import BatchUnreadable
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.errors import SourceStopped
from k2k_assets.transport.record_batch.batches.batch import RecordBatch
from k2k_assets.transport.record_batch.batches.codecs import GZIP, LZ4, SNAPPY, ZSTD, decompressed
from k2k_assets.transport.record_batch.batches.columns import BatchColumns, BatchRecords, arrived
from k2k_assets.transport.record_batch.errors import Unreadable
from k2k_assets.transport.record_batch.reading.walk import walk
from k2k_assets_tests.support.brokers.batches import (
    PACK,
    PackedRecord,
    pack_batch,
    pack_record,
    xerial_snappy,
)
from k2k_assets_tests.support.brokers.odd_frames import ODD_FRAMES, lz4_with

CONTENT = bytes(range(256)) * 800 + b"the end"
"""More than three blocks of 64 KB."""
MEMBERS = 100_000


def _framed(kind: str) -> tuple[int, bytes]:
    codec, frame = ODD_FRAMES[kind]
    return codec, frame(CONTENT)


@pytest.mark.parametrize("kind", ODD_FRAMES)
def test_what_a_format_allows_is_read(kind: str) -> None:
    codec, packed = _framed(kind)
    assert decompressed(codec, memoryview(packed)) == CONTENT


@pytest.mark.parametrize("kind", [kind for kind in ODD_FRAMES if "skipped" not in kind])
def test_what_is_cut_off_is_not(kind: str) -> None:
    codec, packed = _framed(kind)
    for left in (len(packed) - 1, len(packed) - 2, len(packed) // 2):
        with pytest.raises(Unreadable):
            decompressed(codec, memoryview(packed)[:left])


@pytest.mark.parametrize("kind", ODD_FRAMES)
def test_what_is_larger_than_its_limit_is_not_read(kind: str) -> None:
    codec, packed = _framed(kind)
    with pytest.raises(Unreadable, match=f"more than {len(CONTENT) - 1} bytes"):
        decompressed(codec, memoryview(packed), len(CONTENT) - 1)


@pytest.mark.parametrize("at", [100, -6])
def test_a_checksum_that_is_wrong_is_found(at: int) -> None:
    """One in a block, then the one of the last block."""
    packed = bytearray(lz4_with(32 | 16)(CONTENT))
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
        BatchRecords(tp, found[1:]).columns().values()
    assert isinstance(stopped.value.reason, BatchUnreadable)
    assert str(stopped.value).startswith("from-3: ")
    assert "701" in str(stopped.value)

    chunk = Chunk(tp, BatchRecords(tp, found))
    assert list(chunk.columns().offsets()) == [700], "what lies before it is copied"
    assert chunk.fault == stopped.value.reason
    left = chunk.columns()
    assert isinstance(left, BatchColumns)
    assert left.undecoded is not None
    assert left.undecoded.arrived == found[:1]
