"""The header of a record batch (magic 2), as it lies in the log and on the wire.

```
  0  base offset          8      23  last offset delta   4      51  producer epoch   2
  8  length (of the rest) 4      27  base timestamp      8      53  base sequence    4
 12  leader epoch         4      35  max timestamp       8      57  record count     4
 16  magic                1      43  producer id         8      61  records
 17  CRC-32C of what lies behind it: 21 to the end
 21  attributes           2: codec (0-2), broker's time (3), transactional (4), control (5), delete horizon (6)
```
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import google_crc32c
import numpy as np

from k2k_assets.core.topic_partition import HIGHEST_OFFSET
from k2k_assets.core.words import plural
from k2k_assets.transport.record_batch.errors import NotByBatches, Unreadable

HEADER = 61
"""Bytes before the records."""
_PREFIX = 12
_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH = struct.Struct(">qi")
_MAGIC_AT, _CHECKED_FROM, _CODEC_AT = 16, 21, 22
_MAGIC = 2
# A message of the formats before may be shorter than a header: checksum, magic, attributes, no key and no value.
_SHORTEST_OLD = 14
_KNOWN_BITS = 0x7F
_DELETE_HORIZON = 0x40
_CODECS = 5
CODEC_BITS, BROKERS_TIME, TRANSACTIONAL = 0x07, 0x08, 0x10
"""Of the attributes."""
NO_PRODUCER = -1
SMALL_BYTES, SMALL_LARGEST = 4 * 1024, 32 * 1024
"""A batch of less than the first, or of less than the second and few records, is small."""
_FEW_RECORDS = 24
# Decoded, a record takes some hundred bytes, and one of nothing is seven. librdkafka's own producer writes no more.
_MOST_RECORDS = 1_000_000


def is_small(size: int, records: int) -> bool:
    """Whether a batch that is not compressed costs less to join with others than to send by itself.

    Args:
        size: Its bytes.
        records: Number of its records.
    """
    return size < SMALL_BYTES or (records <= _FEW_RECORDS and size < SMALL_LARGEST)


class RecordBatch(NamedTuple):
    """A batch; its records are a view, packed as they came.

    Attributes:
        base: Its first offset, whose record compaction may have removed.
        end: The offset after its last one; likewise.
        leader_epoch: The leader epoch under which it was written.
        attributes: See the module.
        base_timestamp: To which the records' timestamps are relative, in milliseconds since the epoch.
        max_timestamp: The latest timestamp.
        producer_id: Who wrote it; `NO_PRODUCER` if it did not say.
        records: Number of records.
        payload: The records.
        header: What lies before them.
    """

    base: int
    end: int
    leader_epoch: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    records: int
    payload: memoryview
    header: memoryview

    @property
    def size(self) -> int:
        """Bytes of all of it."""
        return HEADER + len(self.payload)

    @property
    def codec(self) -> int:
        """Number of the compression: 0 for none."""
        return self.attributes & CODEC_BITS

    @property
    def has_brokers_time(self) -> bool:
        """Whether all its records have the time at which the broker appended it."""
        return bool(self.attributes & BROKERS_TIME)

    @property
    def first_timestamp(self) -> int:
        """Of its first record, in milliseconds since the epoch; -1 for none.

        Where the broker sets the time, or compaction has put its delete horizon into the base, it is the latest one.
        """
        return self.max_timestamp if self.attributes & (BROKERS_TIME | _DELETE_HORIZON) else self.base_timestamp

    @property
    def is_transactional(self) -> bool:
        """Whether it belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether it holds a marker, and no records for users."""
        return bool(self.attributes & 32)

    @property
    def is_whole(self) -> bool:
        """Whether every offset from `base` to `end` has a record."""
        return self.end - self.base == self.records


def size_at(content: memoryview, at: int) -> int | None:
    """Bytes of the batch that begins there; None if that cannot be told yet, because the content is cut off.

    Raises:
        Unreadable: It is corrupt.
        NotByBatches: It is in a format that librdkafka may know.
    """
    if len(content) - at < _PREFIX:
        return None
    base, length = _LENGTH.unpack_from(content, at)
    if length >= HEADER - _PREFIX and base >= 0:
        return int(length) + _PREFIX
    if base >= 0 and length >= _SHORTEST_OLD:
        if len(content) - at <= _MAGIC_AT:
            return None
        _ensure_not_old(content[at + _MAGIC_AT])
    raise Unreadable(f"a batch of {plural(length, 'byte')} at offset {base}", base)


def _ensure_not_old(magic: int) -> None:
    if magic in (0, 1):
        raise NotByBatches([f"records in the format of Kafka before 0.11 (magic {magic})"])


def base_at(content: memoryview, at: int) -> int:
    """The first offset of the batch that begins there."""
    return int(_LENGTH.unpack_from(content, at)[0])


def is_compressed_at(content: memoryview, at: int) -> bool:
    """Whether the batch that begins there, and is there as far as its header, is compressed."""
    return bool(content[at + _CODEC_AT] & CODEC_BITS)


def batch_at(content: memoryview, at: int, size: int) -> RecordBatch:
    """The batch that begins there, checked.

    Args:
        content: What holds it.
        at: Where it begins.
        size: From `size_at`; all of it is there.

    Raises:
        Unreadable: It is corrupt.
        NotByBatches: It is in a format that librdkafka may know.
    """
    (base, _, epoch, magic, crc, attributes, delta, first, latest, producer, _, _, count) = _HEADER.unpack_from(
        content, at
    )
    if magic != _MAGIC:
        _ensure_not_old(magic)
        raise Unreadable(f"magic {magic}", base)
    # The library takes no memory view, but an array over one: so nothing is copied.
    found = google_crc32c.value(np.frombuffer(content, np.uint8, size - _CHECKED_FROM, at + _CHECKED_FROM))
    if found != crc:
        raise Unreadable(f"its checksum is {found:#010x}, and {crc:#010x} is written in it", base)
    if attributes & ~_KNOWN_BITS or attributes & CODEC_BITS >= _CODECS:
        raise NotByBatches([f"a batch with attributes {attributes:#06x} at offset {base}"])
    if delta < 0 or not 0 <= count <= delta + 1 or base + delta >= HIGHEST_OFFSET:
        raise Unreadable(f"{plural(count, 'record')} in offsets {base} to {base + delta}", base)
    if count > _MOST_RECORDS:
        raise NotByBatches([f"a batch of {plural(count, 'record')} at offset {base}"])
    records_at = at + HEADER
    payload, header = content[records_at : at + size], content[at:records_at]
    return RecordBatch(base, base + delta + 1, epoch, attributes, first, latest, producer, count, payload, header)
