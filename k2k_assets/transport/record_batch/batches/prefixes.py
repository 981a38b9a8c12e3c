"""Gives keys and values other first bytes where they lie: of the records nothing else is read, and none is made anew.

```
records   length | ... | 05 key  | 10 00 00000007 payload | ...
                                      00 0000002a              as many bytes, so that all else stays in its place
```
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from k2k_assets.pipeline.sections.schema_mapping import Facet
from k2k_assets.transport.chunk import NewStart
from k2k_assets.transport.record_batch.batches.batch import CODEC_BITS, HEADER, RecordBatch
from k2k_assets.transport.record_batch.batches.codecs import AT_ONCE, NONE, decompressed
from k2k_assets.transport.record_batch.batches.compression import compressed
from k2k_assets.transport.record_batch.batches.outgoing import BEFORE_CHECKED, LENGTH_LESS
from k2k_assets.transport.record_batch.batches.record_index import fields_of
from k2k_assets.transport.record_batch.batches.varints import Numbers, Octets

_ATTRIBUTES = struct.Struct(">h")


class Partly(NamedTuple):
    """A batch, and how many of its first records stay as they are."""

    batch: RecordBatch
    unwanted: int


def with_prefixes(partly: Sequence[Partly], size: int, new: Mapping[Facet, NewStart]) -> list[RecordBatch] | None:
    """Batches whose records have other first bytes; themselves if none has others. None: they are too large together.

    They are looked into together: a step for all records costs as much as one for a few.

    Args:
        partly: The batches, at least one.
        size: How many bytes are replaced at most.
        new: Tells those of keys, and of values.

    Raises:
        Unreadable: A batch is damaged.
        Exception: What `new` raises.
    """
    contents: list[bytes | memoryview] = []
    left = AT_ONCE
    for batch, _ in partly:
        if left <= 0:
            return None
        contents.append(decompressed(batch.codec, batch.payload) if batch.codec else batch.payload)
        left -= len(contents[-1])
    content = bytearray().join(contents)
    fields = fields_of(content, sum(batch.records for batch, _ in partly))
    wanted = _wanted(partly)
    is_changed = False
    for facet, start in new.items():
        at, sizes = (fields.keys, fields.key_sizes) if facet == "key" else (fields.values, fields.value_sizes)
        places, replaced = _replaced(content, at[wanted], sizes[wanted], size, start)
        if replaced is not None:
            np.frombuffer(content, np.uint8)[places] = replaced
            is_changed = True
    if not is_changed:
        return [batch for batch, _ in partly]
    ends = accumulate(map(len, contents))
    whole = memoryview(content)
    return [
        _with_content(batch, whole[end - len(before) : end])
        for (batch, _), before, end in zip(partly, contents, ends, strict=True)
    ]


def _wanted(partly: Sequence[Partly]) -> slice | NDArray[np.bool_]:
    """Which of the records of all batches may change."""
    if not any(unwanted for _, unwanted in partly):
        return slice(None)
    return np.concatenate([np.arange(batch.records) >= unwanted for batch, unwanted in partly])


def _replaced(
    content: bytearray, at: Numbers, sizes: Numbers, size: int, new: NewStart
) -> tuple[Numbers, Octets | None]:
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


def _ask_about_short(content: bytearray, at: Numbers, sizes: Numbers, new: NewStart) -> None:
    """Nothing replaces what is null or shorter, but it may be refused."""
    short = {
        None if length < 0 else bytes(content[first : first + length])
        for first, length in zip(at.tolist(), sizes.tolist(), strict=True)
    }
    for each in short:
        new(each)


def _with_content(batch: RecordBatch, content: memoryview) -> RecordBatch:
    """A batch with other records, compressed as before if that makes them smaller."""
    codec, payload = compressed(batch.codec, bytes(content)) if batch.codec else (NONE, content)
    attributes = batch.attributes & ~CODEC_BITS | codec
    base, _, epoch, magic, _ = BEFORE_CHECKED.unpack_from(batch.header)
    checked = _ATTRIBUTES.pack(attributes) + bytes(batch.header[BEFORE_CHECKED.size + _ATTRIBUTES.size :])
    crc = google_crc32c.extend(google_crc32c.value(checked), np.frombuffer(payload, np.uint8))
    header = BEFORE_CHECKED.pack(base, HEADER - LENGTH_LESS + len(payload), epoch, magic, crc) + checked
    return batch._replace(attributes=attributes, payload=memoryview(payload), header=memoryview(header))
