"""Records and their copies as batches in memory, cut and packed in any way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from k2k_assets.transport.record_batch.batches.batch import RecordBatch, batch_at
from k2k_assets.verification.content.by_batches.mapped_offsets import MappedOffsets
from k2k_assets_tests.support.brokers.batches import PackedRecord, pack_batch

Headers = tuple[tuple[bytes, bytes | None], ...]


class Written(NamedTuple):
    """A record in a log."""

    offset: int
    key: bytes | None = None
    value: bytes | None = b"value"
    headers: Headers = ()
    timestamp: int = 1000


def batches(
    records: Sequence[Written], sizes: Sequence[int] = (3,), codecs: Sequence[int] = (0,), attributes: int = 0
) -> list[RecordBatch]:
    """Records in batches of these sizes and codecs, in turns."""
    found: list[RecordBatch] = []
    at = 0
    while at < len(records):
        number = len(found)
        some = records[at : at + sizes[number % len(sizes)]]
        at += len(some)
        base, first = some[0].offset, some[0].timestamp
        packed = [
            PackedRecord(each.offset - base, each.key, each.value, each.headers, each.timestamp - first)
            for each in some
        ]
        latest = max(each.timestamp for each in some)
        content = pack_batch(
            base, packed, attributes=codecs[number % len(codecs)] | attributes, timestamp=first, latest=latest
        )
        found.append(batch_at(memoryview(content), 0, len(content)))
    return found


def mapped(runs: Iterable[tuple[int, int, int]]) -> MappedOffsets:
    """Runs: source start, target start, count."""
    found = MappedOffsets.of(*(np.array(column, np.int64) for column in zip(*runs, strict=True)))
    assert found is not None
    return found


class Handed:
    """Batches that are handed out so many at a time."""

    def __init__(self, content: Sequence[RecordBatch], at_once: int = 2) -> None:
        self._left, self._at_once = list(content), at_once

    def more(self) -> Sequence[RecordBatch] | None:
        found, self._left = self._left[: self._at_once], self._left[self._at_once :]
        return found or None
