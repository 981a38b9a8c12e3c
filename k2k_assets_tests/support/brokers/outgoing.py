"""What a broker would find in outgoing batches, and what it should find."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kio.records.readers import read_batch

from k2k_assets.pipeline.sections.added_headers import AddedHeaders
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.record_batch.batches.batch import batch_at
from k2k_assets.transport.record_batch.batches.outgoing import OutgoingBatch, stamped
from k2k_assets.transport.record_batch.batches.record_codec import decoded

RawHeaders = list[tuple[bytes, bytes | None]]


class SentRecord(NamedTuple):
    """A record as it is on the target, with the offset that it had on the source."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: RawHeaders
    time: int


def wire(batch: OutgoingBatch) -> bytes:
    """A batch as it is sent by some producer."""
    return stamped(batch, 7, 3, 11, is_transactional=True) + batch.payload


def received(batches: Iterable[OutgoingBatch]) -> list[SentRecord]:
    """The records of batches, in order; that a broker would accept the batches is asserted."""
    found: list[SentRecord] = []
    for outgoing in batches:
        content = wire(outgoing)
        assert len(content) == outgoing.size
        batch = batch_at(memoryview(content), 0, len(content))
        assert (batch.base, batch.records, batch.producer_id) == (0, len(outgoing.offsets), 7)
        assert batch.is_whole
        assert batch.attributes & ~7 == 16
        records = decoded(batch)
        assert batch.max_timestamp >= max(records.timestamps) or outgoing.checked
        columns = (outgoing.offsets, records.keys, records.values, map(list, records.headers), records.timestamps)
        found += map(SentRecord._make, zip(*columns, strict=True))
    return found


def read_by_kio(batch: OutgoingBatch) -> list[tuple[bytes | None, bytes | None, RawHeaders]]:
    """Key, value and headers of each record of a batch, which is not compressed, as `kio` reads them."""
    found, _ = read_batch(wire(batch), 0)
    return [(each.key, each.value, [(h.key or b"", h.value) for h in each.headers]) for each in found.records]


def should_be_sent(chunk: Chunk, records: Sequence[SentRecord], now: int) -> list[SentRecord]:
    """Records with the headers and the time that a chunk's settings mean."""
    return [
        record._replace(headers=_headers(chunk, record), time=record.time if chunk.keep_timestamps else now)
        for record in records
    ]


def _headers(chunk: Chunk, record: SentRecord) -> RawHeaders:
    own = [
        each for each in record.headers if chunk.keep_headers or (chunk.carried and each[0] == chunk.carried.encode())
    ]
    return own + _added(chunk.added, chunk, record.offset)


def _added(added: AddedHeaders, chunk: Chunk, offset: int) -> RawHeaders:
    return [(each.name.encode(), each.value(*chunk.source, offset)) for each in added]
