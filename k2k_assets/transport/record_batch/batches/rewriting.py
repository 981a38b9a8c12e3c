"""Makes outgoing batches of a chunk: what can pass passes, all else is packed anew.

| batch | what becomes of it |
| --- | --- |
| whole, in the compression that is asked for, and neither too large nor small | passes untouched |
| headers are not copied, and it has none | passes |
| in another compression, or in LZ4 that brokers do not read | is compressed anew |
| partly below the position, or with gaps from compaction | packed anew: offset deltas from 0 on |
| broker's time, or times are not copied | packed anew, with these times |
| headers left out or added | packed anew |
| too large for the target | packed anew as several |
| small and not compressed | joined with those beside it, because each batch has its price |
| records that a stage has changed or left out | packed anew, in batches of `joined_bytes` |
| schema ids that are others on the target | replaced where they lie (`prefixes`); it passes |

What is packed anew is joined too, up to `joined_bytes`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from k2k_assets.core.stops.reasons.records import BatchUnreadable
from k2k_assets.transport.chunk import Chunk, Columns, Records
from k2k_assets.transport.errors import SourceStopped
from k2k_assets.transport.record_batch.batches.batch_rewriter import BatchRewriter
from k2k_assets.transport.record_batch.batches.codecs import LZ4
from k2k_assets.transport.record_batch.batches.columns import BatchColumns, BatchRecords
from k2k_assets.transport.record_batch.batches.outgoing import OutgoingBatch
from k2k_assets.transport.record_batch.batches.packing import RecordColumns, batches_of_columns
from k2k_assets.transport.record_batch.batches.packing_settings import PackingSettings
from k2k_assets.transport.record_batch.batches.record_codec import RawHeaders
from k2k_assets.transport.record_batch.batches.sections import HeaderRules
from k2k_assets.transport.record_batch.errors import NotByBatches, Unreadable
from k2k_assets.transport.rewritten import RewrittenColumns

# Of records that did not come in batches: as the other transport compresses all.
_CODEC = LZ4


def outgoing_of(chunk: Chunk, settings: PackingSettings, clock: Callable[[], float] = time.time) -> list[OutgoingBatch]:
    """The batches that a chunk is sent as, in order; each of its records is in one of them.

    Args:
        chunk: The chunk, routed.
        settings: How batches are packed.
        clock: Tells the time of records whose own is not copied, in seconds since the epoch.

    Raises:
        NotByBatches: Its records have no partition yet.
        SourceStopped: A batch of the source cannot be read.
    """
    if chunk.target_partition is None:
        raise NotByBatches([f"records of {chunk.source.topic} whose partition the producer chooses"])
    if not chunk.count:
        return []
    now = None if chunk.keep_timestamps else int(clock() * 1000)
    rules = HeaderRules(chunk)
    undecoded = _undecoded(chunk.records)
    if undecoded is None:
        return list(_packed_columns(chunk.columns(), rules, settings, now))
    try:
        return BatchRewriter(rules, settings, now).rewritten(undecoded.arrived)
    except Unreadable as found:
        reason = BatchUnreadable(chunk.source, found.offset, found.words)
        raise SourceStopped(chunk.source, reason) from None


def _undecoded(records: Records) -> BatchRecords | None:
    """The records as they came, if nobody has changed them."""
    if isinstance(records, BatchColumns):
        return records.undecoded
    return records if isinstance(records, BatchRecords) else None


def _packed_columns(
    columns: Columns, rules: HeaderRules, settings: PackingSettings, now: int | None
) -> Iterator[OutgoingBatch]:
    offsets = columns.offsets()
    found = RecordColumns(
        columns.timestamps() if now is None else [now] * len(offsets),
        columns.keys(),
        columns.values(),
        rules.of_headers(_raw_headers(columns), offsets),
        offsets,
    )
    codec = _codec(columns) if settings.codec is None else settings.codec
    return batches_of_columns(found, codec, settings, settings.joined_bytes)


def _raw_headers(columns: Columns) -> Sequence[RawHeaders]:
    if isinstance(columns, RewrittenColumns) and not columns.has_new_headers:
        return _raw_headers(columns.origin)
    if isinstance(columns, BatchColumns):
        return columns.raw_headers()
    return [[(name.encode(), value) for name, value in has] if has else () for has in columns.headers()]


def _codec(columns: Columns) -> int:
    """The compression that records came with."""
    while isinstance(columns, RewrittenColumns):
        columns = columns.origin
    return columns.codec if isinstance(columns, BatchColumns) else _CODEC
