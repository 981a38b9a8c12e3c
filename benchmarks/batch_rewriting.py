"""Measures what it costs to make outgoing batches, in microseconds of CPU a record and a batch.

    python -m benchmarks.batch_rewriting            # needs no brokers; half a minute
    python -m benchmarks.batch_rewriting --append   # the same, appended to RESULTS.md

From batches as the source sent them to headers and payloads as they are sent; neither reading nor sending is in it.
"""

from __future__ import annotations

import argparse
import random
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks import machine, report
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline.sections.added_headers import AddedHeader, AddedHeaders
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.record_batch.batches.batch import batch_at
from k2k_assets.transport.record_batch.batches.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD
from k2k_assets.transport.record_batch.batches.columns import ArrivedBatch, BatchRecords
from k2k_assets.transport.record_batch.batches.outgoing import stamped
from k2k_assets.transport.record_batch.batches.packing import Record, packed
from k2k_assets.transport.record_batch.batches.packing_settings import PackingSettings
from k2k_assets.transport.record_batch.batches.rewriting import outgoing_of

REPEAT = 9
_RECORDS_A_TIME = 10_000
_SOURCE = TopicPartition("orders", 0)
_OFFSETS: AddedHeaders = (AddedHeader("__k2k_partition", "partition"), AddedHeader("__k2k_offset", "offset"))
_TRACE = [(b"trace", b"0123456789abcdef")]
_BASE_OFFSET = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class Case:
    """What is done to which batches.

    Attributes:
        title: Its name.
        records: Records a batch.
        size: Bytes of each value.
        codec: How the source has compressed them.
        has_headers: Whether each record has a header.
        asked: The compression that is asked for; None: that of the source.
        keeps_headers: Whether headers are copied.
        keeps_times: Whether timestamps are copied.
        added: Headers that are added.
        limit: The largest batch that the target takes.
    """

    title: str
    records: int = 2400
    size: int = 100
    codec: int = NONE
    has_headers: bool = False
    asked: int | None = None
    keeps_headers: bool = True
    keeps_times: bool = True
    added: AddedHeaders = ()
    limit: int = 1_000_000


_SHAPES = (Case("100 B, 2,400 a batch"), Case("1 KB, 47 a batch, lz4", 47, 1000, LZ4))
CASES = (
    *(replace(each, title=f"untouched: {each.title}") for each in _SHAPES),
    *(replace(each, title=f"headers off, there are none: {each.title}", keeps_headers=False) for each in _SHAPES),
    *(replace(each, title=f"headers off: {each.title}", has_headers=True, keeps_headers=False) for each in _SHAPES),
    *(replace(each, title=f"two headers added: {each.title}", has_headers=True, added=_OFFSETS) for each in _SHAPES),
    Case("times off: 100 B, 2,400 a batch", keeps_times=False),
    Case("cut into three: 100 B, 2,400 a batch", limit=100_000),
    Case("joined: 1 KB, 4 a batch", 4, 900),
    Case("joined: 1 KB, 1 a batch", 1, 1000),
    *(
        Case(f"from none to {name}: 100 B, 2,400 a batch", asked=codec)
        for name, codec in (("gzip", GZIP), ("snappy", SNAPPY), ("lz4", LZ4), ("zstd", ZSTD))
    ),
)


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.batch_rewriting", description=__doc__)
    parser.add_argument("--append", action="store_true", help="append to RESULTS.md")
    options = parser.parse_args()
    words = machine.listed()
    rows = [[case.title, *measured(case)] for case in CASES]
    sections = [
        f"### Making outgoing batches\n\nBest of {REPEAT}; no broker is in it\n\n{words}",
        report.table(["what", "us a record", "us a batch of the source", "MB/s of values"], rows),
    ]
    report.publish(sections, options.append)


def measured(case: Case) -> list[str]:
    """Microseconds a record and a batch, and MB/s."""
    batches = _batches(case)
    records = BatchRecords(_SOURCE, batches)
    settings = PackingSettings(case.limit, case.asked)

    def spent() -> float:
        started = time.process_time()
        chunk = Chunk(
            _SOURCE, records, "copies", 0, keep_headers=case.keeps_headers, keep_timestamps=case.keeps_times,
            added=case.added,
        )  # fmt: skip
        for batch in outgoing_of(chunk, settings):
            stamped(batch, 1, 0, 0, is_transactional=True)
        return time.process_time() - started

    seconds = min(spent() for _ in range(REPEAT))
    count = len(records)
    rate = count * case.size / seconds / 1e6
    return [f"{seconds / count * 1e6:.3f}", f"{seconds / len(batches) * 1e6:.1f}", f"{rate:,.0f}"]


def _batches(case: Case) -> Sequence[ArrivedBatch]:
    rng = random.Random(case.size)
    words = [rng.randbytes(6).hex().encode() for _ in range(500)]
    text = b" ".join(rng.choices(words, k=50_000))
    found, offset = [], 0
    for number in range(max(1, _RECORDS_A_TIME // case.records)):
        rows: list[Record] = []
        for n in range(case.records):
            at = (number * 7919 + n * 97) % (len(text) - case.size)
            headers = _TRACE if case.has_headers else []
            rows.append((b"key-%d" % (n % 1000), text[at : at + case.size], headers, 1_700_000_000_000 + n // 10))
        made = packed(rows, case.codec)
        content = memoryview(_BASE_OFFSET.pack(offset) + stamped(made)[_BASE_OFFSET.size :] + made.payload)
        found.append(ArrivedBatch(batch_at(content, 0, len(content)), range(offset, offset + case.records)))
        offset += case.records
    return found


if __name__ == "__main__":
    main()
