"""Joins small batches as they are read, because each batch has its price on its way to the target.

```
header record | header record record | header record      ->      header record record record record
```

Every checksum is checked. Whatever is unusual ends the run: that batch is left to the usual way, which also says what
is wrong with it.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import NamedTuple

import google_crc32c
import numpy as np

from k2k_assets.transport.record_batch.batches.batch import (
    HEADER,
    NO_PRODUCER,
    SMALL_BYTES,
    TRANSACTIONAL,
    RecordBatch,
    is_small,
)
from k2k_assets.transport.record_batch.batches.codecs import NONE
from k2k_assets.transport.record_batch.batches.outgoing import LENGTH_LESS, OutgoingBatch, stamped
from k2k_assets.transport.record_batch.batches.packing import PackedRecords
from k2k_assets.transport.record_batch.batches.record_index import RecordIndex
from k2k_assets.transport.record_batch.batches.varints import numbers
from k2k_assets.transport.record_batch.errors import Unreadable

_LEAST = 8
"""Fewer batches are not worth the arrays."""
_LARGEST, _MOST_BYTES = 256 * 1024, 1024 * 1024
"""Bytes of those that become one batch; and of those that are looked at together."""
_CHECKED_FROM = 21
_MAGIC = 2
_LOOK = struct.Struct(">qi9xhiq22xi")  # base, length, attributes, last delta, base timestamp, records
_SUMS = np.dtype({"names": ["epoch", "magic", "crc"], "formats": [">i4", "i1", ">u4"], "offsets": [12, 16, 17]})
_PLACES = np.arange(_CHECKED_FROM)
# Who claims more records than there can be is not believed: memory is taken for each.
_LEAST_RECORD = 7
# Sums of two numbers below it have no more than 64 bits.
_SAFE = 1 << 61


class JoinedBatches(NamedTuple):
    """Small batches as fewer ones.

    Attributes:
        batches: All their records.
        end: Where the last of them ends in the content.
    """

    batches: list[RecordBatch]
    end: int


@dataclass(slots=True)
class _Members:
    """The batches that are joined.

    Attributes:
        edges: Where each begins, and the last one ends.
        bases: Their first offsets.
        counts: Their numbers of records.
        times: Their base timestamps.
    """

    edges: list[int]
    bases: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)


def joined_small(content: memoryview, at: int, stable: int, most: int, with_transactions: bool) -> JoinedBatches | None:
    """The small batches that begin at a place, one behind the other, as fewer ones.

    Args:
        content: What holds them.
        at: Where the first one begins; its first offset is wanted.
        stable: The last stable offset: nothing from there on is decided.
        most: So many records become one batch at most.
        with_transactions: Whether batches of transactions are among those that may be joined: none is aborted.

    Returns:
        None if there are too few.

    Raises:
        Unreadable: One is damaged, or unusual. Which and why is not known.
    """
    members = _members(content, at, min(stable, _SAFE), ~TRANSACTIONAL if with_transactions else -1)
    if len(members.bases) < _LEAST:
        return None
    end = members.edges[-1]
    region = bytes(content[at:end])
    members.edges = [each - at for each in members.edges]
    epoch = _checked_epoch(members, region)
    return JoinedBatches(list(_joined(members, region, most, epoch)), end)


def _members(content: memoryview, at: int, stable: int, mask: int) -> _Members:
    """The batches from a place on, as long as they are small, usual, and follow each other without a gap."""
    found, last = _Members([at]), min(at + _MOST_BYTES, len(content))
    edges, bases, counts, times = found.edges, found.bases, found.counts, found.times
    look, following = _LOOK.unpack_from, -1
    while at + HEADER <= last:
        base, size, attributes, delta, time, records = look(content, at)
        size += LENGTH_LESS
        at += size
        is_next = base == following if bases else base >= 0
        if not is_next or attributes & mask or base >= stable or not 0 <= time < _SAFE:
            break
        if size < HEADER or at > last or not 0 < records == delta + 1 <= size // _LEAST_RECORD:
            break
        if size >= SMALL_BYTES and not is_small(size, records):
            break
        following = base + records
        edges.append(at)
        bases.append(base)
        counts.append(records)
        times.append(time)
    return found


def _checked_epoch(members: _Members, region: bytes) -> int:
    """Checks magic, leader epoch and sum of each; returns the leader epoch of all."""
    edges = members.edges
    octets = np.frombuffer(region, np.uint8)[np.array(edges[:-1])[:, None] + _PLACES]
    heads = octets.view(_SUMS)[:, 0]
    sums = [google_crc32c.value(region[at + _CHECKED_FROM : end]) for at, end in pairwise(edges)]
    epoch = int(heads["epoch"][0])
    if (
        (heads["magic"] != _MAGIC).any()
        or (heads["epoch"] != epoch).any()
        or (heads["crc"] != np.array(sums, np.uint32)).any()
    ):
        raise Unreadable("a small batch is damaged")
    return epoch


def _joined(members: _Members, region: bytes, most: int, epoch: int) -> Iterator[RecordBatch]:
    try:
        index = _indexed(region, members)
    except IndexError:
        raise Unreadable("the records of a small batch end too early") from None
    bodies = index.slices(index.bodies, index.sections)
    begin, edges, totals = 0, members.edges, list(accumulate(members.counts, initial=0))
    while begin < len(members.bases):
        by_size = bisect_right(edges, edges[begin] + _LARGEST, lo=begin + 2) - 1
        end = min(by_size, bisect_right(totals, totals[begin] + most, lo=begin + 2) - 1)
        yield _one(members, index, bodies, begin, end, epoch)
        begin = end


def _indexed(region: bytes, members: _Members) -> RecordIndex:
    """Where the records lie in their batches: a step for the first ones of all batches, one for the second ones."""
    octets, edges, counts = np.frombuffer(region, np.uint8), np.array(members.edges), np.array(members.counts)
    lasts = np.cumsum(counts)
    heads, ends = np.empty(lasts[-1], np.int64), np.empty(lasts[-1], np.int64)
    places, at, left = lasts - counts, edges[:-1] + HEADER, counts
    while places.size:
        sizes, behind = numbers(octets, at)
        if (sizes <= 0).any() or (sizes > len(region)).any():
            raise Unreadable("a record of nothing")
        heads[places], ends[places] = behind, behind + sizes
        goes_on = left > 1
        at, places, left = (behind + sizes)[goes_on], places[goes_on] + 1, left[goes_on] - 1
    laters, at = numbers(octets, heads + 1)
    deltas, bodies = numbers(octets, at)
    wanted = np.arange(lasts[-1]) - np.repeat(lasts - counts, counts)
    if (ends[lasts - 1] != edges[1:]).any() or (deltas != wanted).any() or (bodies >= ends).any():
        raise Unreadable("a small batch does not hold what it says")
    if (abs(laters) >= _SAFE).any():
        raise Unreadable("a small batch of unusual times")
    times = np.array(members.times)
    return RecordIndex(region, laters + np.repeat(times, counts), deltas, heads, bodies, ends, ends)


def _one(members: _Members, index: RecordIndex, bodies: list[bytes], begin: int, end: int, epoch: int) -> RecordBatch:
    """Some of the batches as one."""
    base, count, skipped = members.bases[begin], sum(members.counts[begin:end]), sum(members.counts[:begin])
    records = slice(skipped, skipped + count)
    time, offsets = members.times[begin], range(base, base + count)
    laters = (index.laters[records] - time).tolist()
    payload = PackedRecords(time, laters, bodies[records], None, offsets).content()
    made = OutgoingBatch(NONE, time, time + max(laters), count, payload, offsets)
    header, payload_view = memoryview(stamped(made)), memoryview(payload)
    return RecordBatch(
        base, offsets.stop, epoch, NONE, time, made.max_timestamp, NO_PRODUCER, count, payload_view, header
    )
