"""Gives keys and values other first bytes where they lie: of the records nothing else is read, and none is made anew.

```
records   length | ... | 05 key  | 10 00 00000007 payload | ...
                                      00 0000002a              as many bytes, so that all else stays in its place
```
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import google_crc32c
import numpy as np

from k2k_assets.pipeline.sections.schema_mapping import Facet
from k2k_assets.transport.chunk import NewStart
from k2k_assets.transport.record_batch.batches.batch import CODEC_BITS, HEADER, RecordBatch
from k2k_assets.transport.record_batch.batches.codecs import decompressed
from k2k_assets.transport.record_batch.batches.compression import compressed
from k2k_assets.transport.record_batch.batches.record_index import Fields, fields_of
from k2k_assets.transport.record_batch.batches.varints import Numbers, Octets

_HEAD = struct.Struct(">qiibIh")
_LENGTH_LESS, _CHECKED_FROM, _BEHIND_HEAD = 12, 21, 23


def with_prefixes(batch: RecordBatch, unwanted: int, size: int, new: Mapping[Facet, NewStart]) -> RecordBatch:
    """A batch whose records have other first bytes; itself if none has others.

    Args:
        batch: The batch.
        unwanted: So many of its first records stay as they are.
        size: How many bytes are replaced at most.
        new: Tells those of keys, and of values.

    Raises:
        Unreadable: The batch is damaged.
        Exception: What `new` raises.
    """
    content = decompressed(batch.codec, batch.payload)
    fields = fields_of(content, batch.records)
    changed: bytearray | None = None
    for facet, start in new.items():
        at, sizes = _wanted(fields, facet, unwanted)
        places, replaced = _replaced(content, at, sizes, size, start)
        if replaced is not None:
            changed = changed if changed is not None else bytearray(content)
            np.frombuffer(changed, np.uint8)[places] = replaced
    return batch if changed is None else _with_content(batch, bytes(changed))


def _wanted(fields: Fields, facet: Facet, unwanted: int) -> tuple[Numbers, Numbers]:
    at, sizes = (fields.keys, fields.key_sizes) if facet == "key" else (fields.values, fields.value_sizes)
    return at[unwanted:], sizes[unwanted:]


def _replaced(content: bytes, at: Numbers, sizes: Numbers, size: int, new: NewStart) -> tuple[Numbers, Octets | None]:
    """Where the bytes lie that are replaced, a row for each record; and what is there instead, None for the same."""
    is_long = sizes >= size
    if not is_long.all():
        _ask_about_short(content, at[~is_long], sizes[~is_long], new)
        at = at[is_long]
    places = at[:, None] + np.arange(size)
    rows = np.ascontiguousarray(np.frombuffer(content, np.uint8)[places])
    if not len(rows):
        return places, None
    found, which = _distinct(rows)
    starts = [each.tobytes() for each in found]
    told = [new(start) for start in starts]
    if told == starts:
        return places, None
    return places, np.frombuffer(b"".join(each or b"" for each in told), np.uint8).reshape(-1, size)[which]


def _distinct(rows: Octets) -> tuple[Octets, Numbers]:
    """The rows that differ, and which of them each is. Nearly always it is one."""
    if (rows == rows[0]).all():
        return rows[:1], np.zeros(len(rows), np.int64)
    as_one = rows.view(np.dtype((np.void, rows.shape[1])))[:, 0]
    _, firsts, which = np.unique(as_one, return_index=True, return_inverse=True)
    return rows[firsts], which


def _ask_about_short(content: bytes, at: Numbers, sizes: Numbers, new: NewStart) -> None:
    """Nothing replaces what is null or shorter, but it may be refused."""
    short = {
        None if length < 0 else content[first : first + length]
        for first, length in zip(at.tolist(), sizes.tolist(), strict=True)
    }
    for each in short:
        new(each)


def _with_content(batch: RecordBatch, content: bytes) -> RecordBatch:
    """A batch with other records, compressed as before if that makes them smaller."""
    codec, payload = compressed(batch.codec, content)
    attributes = batch.attributes & ~CODEC_BITS | codec
    base, _, epoch, magic, _, _ = _HEAD.unpack_from(batch.header)
    checked = struct.pack(">h", attributes) + bytes(batch.header[_BEHIND_HEAD:HEADER])
    crc = google_crc32c.extend(google_crc32c.value(checked), payload)
    header = _HEAD.pack(base, HEADER - _LENGTH_LESS + len(payload), epoch, magic, crc, attributes)
    header += checked[_BEHIND_HEAD - _CHECKED_FROM :]
    return batch._replace(attributes=attributes, payload=memoryview(payload), header=memoryview(header))
