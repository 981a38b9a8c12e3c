"""Measures what stages that change records cost, in microseconds of this process's CPU a record; needs no brokers.

    python -m benchmarks.stages            # the best of many, so that what else runs counts little
    python -m benchmarks.stages --append   # the same, appended to RESULTS.md

The stage alone: that its records have to be decoded, and are handed to the client library one by one, is in the figures
of whole copies. In whole batches nothing is decoded: there it is all that is more than without the stage.
"""

from __future__ import annotations

import argparse
import timeit
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import pyarrow as pa

from benchmarks import machine, report
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline.sections.added_headers import AddedHeaders
from k2k_assets.pipeline.sections.bidirectional import Marker
from k2k_assets.pipeline.sections.schema_mapping import Facet
from k2k_assets.pipeline.sections.tracing import TracingFlags, TracingHeaders, tracing_headers
from k2k_assets.pipeline.sections.transform import TransformRule, transform_text
from k2k_assets.registry.framing import prefix_of
from k2k_assets.registry.schema_ids import SchemaIds
from k2k_assets.registry.schemas import Reference, Schema, SubjectVersion
from k2k_assets.stages import Stage
from k2k_assets.stages.headers import header_adder
from k2k_assets.stages.marker import marker_stage
from k2k_assets.stages.schema_mapping import SchemaMapper
from k2k_assets.stages.transform.isolated import IsolatedFunctions
from k2k_assets.stages.transform.rules import Transforms
from k2k_assets.stages.transform.stage import TransformStage
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.headers import Headers
from k2k_assets.transport.record_batch.batches.batch import batch_at
from k2k_assets.transport.record_batch.batches.columns import BatchRecords, arrived
from k2k_assets.transport.record_batch.batches.outgoing import stamped
from k2k_assets.transport.record_batch.batches.packing import Record, packed

RECORDS = 2000
SIZES = (100, 1000)
REPEAT = 50
IDS = 20
_MARKER = Marker("__k2k_bidirectional", "pipeline", "orders-both-ways")


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stages", description=__doc__)
    parser.add_argument("--append", action="store_true", help="append to RESULTS.md")
    options = parser.parse_args()
    rows: list[list[str]] = []
    for what, stage, keys in stages():
        report.progress(what)  # a loaded machine takes minutes for all of them
        rows.append(_row(what, stage, keys))
    for what, stage, keys in stages()[:2]:
        rows.append([f"{what}, in whole batches", *(f"{_in_batches(stage, size, keys):.2f}" for size in SIZES)])
    words = machine.listed()
    how = f"Microseconds of CPU a record, chunks of {RECORDS:,}, the best of {REPEAT}"
    title = f"### Stages that change records\n\n{how}"
    columns = ["stage", *(f"values of {size:,} B" for size in SIZES)]
    sections = [f"{title}\n\n{words}", report.table(columns, rows)]
    report.publish(sections, options.append)


def stages() -> list[tuple[str, Stage, bool]]:
    """What is measured: its name, the stage, and whether keys begin with schema ids too."""
    return [
        ("schema ids of values", _schema_mapper({"value": True}), False),
        ("schema ids of keys and values", _schema_mapper({"key": True, "value": True}), True),
        ("tracing headers: topic, partition, pipeline", header_adder(_tracing(offset=False)), False),
        ("tracing headers: all four", header_adder(_tracing(offset=True)), False),
        ("both directions: no echo", marker_stage(_MARKER, "a", "b"), False),
        ("both directions: every second record is an echo", _with_echoes(marker_stage(_MARKER, "a", "b")), False),
        ("filter by a header: every second record is left out", _with_headers(_transform(_BY_HEADER)), False),
        ("filter by a field of the value: every second one is left out", _with_json(_transform(_BY_FIELD)), False),
        ("mask a field of the value", _with_json(_transform(_MASK)), False),
        ("a function that leaves out every second record", _transform(_FUNCTION), False),
        ("the same in a process of its own, as in slots: time, not CPU", _isolated(_FUNCTION), False),
    ]


_BY_HEADER: dict[str, Any] = {"filter": {"header": "n", "equals": "0"}}
_BY_FIELD: dict[str, Any] = {"filter": {"value": "order.n", "equals": 0}}
_FUNCTION = {"python": "benchmarks.stages:every_second"}
_MASK: dict[str, Any] = {"mask": [{"value": "order.email", "with": "***"}]}


def every_second(records: pa.RecordBatch) -> pa.RecordBatch:
    """A function for `transform`."""
    return records.take(pa.array(range(0, records.num_rows, 2)))


def _transform(rule: dict[str, Any]) -> Stage:
    rules = [TransformRule.model_validate({"pattern": ".*", **rule})]
    return TransformStage(Transforms(transform_text(rules, ()), ()), "orders-to-target")


def _isolated(rule: dict[str, Any]) -> Stage:
    text = transform_text([TransformRule.model_validate({"pattern": ".*", **rule})], ())
    functions = IsolatedFunctions.of_text(text, (), timeout=300.0)
    return TransformStage(Transforms(text, (), functions.call_of), "orders-to-target")


def _with_headers(stage: Stage) -> Stage:
    headers: list[Headers | None] = [[("n", b"%d" % (number % 2))] for number in range(RECORDS)]

    def run(chunk: Chunk) -> Chunk:
        given = chunk.columns()
        chunk.records = Records(given.keys(), given.values(), headers)
        return stage(chunk)

    return run


def _with_json(stage: Stage) -> Stage:
    """Values of about the same size that are JSON."""
    made: dict[int, list[bytes | None]] = {}

    def run(chunk: Chunk) -> Chunk:
        given = chunk.columns()
        size = len(given.values()[0] or b"")
        if size not in made:
            made[size] = [_order(number, size) for number in range(len(given))]
        chunk.records = Records(given.keys(), made[size])
        return stage(chunk)

    return run


def _order(number: int, size: int) -> bytes:
    head = b'{"order":{"n":%d,"email":"%d@example.org"},"items":[' % (number % 2, number)
    items = max(1, (size - len(head) - 2) // 12)
    return head + b",".join([b'{"price":10}'] * items) + b"]}"


def _with_echoes(stage: Stage) -> Stage:
    echoes: list[Headers | None] = [[_MARKER.of_echoes("b")] if number % 2 else None for number in range(RECORDS)]

    def run(chunk: Chunk) -> Chunk:
        given = chunk.columns()
        chunk.records = Records(given.keys(), given.values(), echoes)
        return stage(chunk)

    return run


@dataclass(slots=True)
class Records:
    """Decoded records, as a transport has them."""

    all_keys: Sequence[bytes | None]
    all_values: Sequence[bytes | None]
    all_headers: Sequence[Headers | None] | None = None

    def __len__(self) -> int:
        return len(self.all_keys)

    @property
    def first_offset(self) -> int:
        return 0

    @property
    def last_offset(self) -> int:
        return len(self) - 1

    @property
    def leader_epoch(self) -> int | None:
        return 0

    @property
    def first_leader_epoch(self) -> int | None:
        return 0

    @property
    def first_timestamp(self) -> int:
        return 0

    def offsets(self) -> Sequence[int]:
        return range(len(self))

    def size(self) -> int:
        return sum(len(value) for value in self.all_values if value is not None)

    def columns(self) -> Records:
        return self

    def keys(self) -> Sequence[bytes | None]:
        return self.all_keys

    def values(self) -> Sequence[bytes | None]:
        return self.all_values

    def timestamps(self) -> Sequence[int]:
        return [0] * len(self)

    def headers(self) -> Sequence[Headers | None]:
        return self.all_headers or [None] * len(self)

    def before(self, index: int) -> Records:
        return Records(self.all_keys[:index], self.all_values[:index], self.headers()[:index])

    def select(self, kept: Sequence[bool]) -> Records:
        keys, values = list(compress(self.all_keys, kept)), list(compress(self.all_values, kept))
        return Records(keys, values, list(compress(self.headers(), kept)))


class _AnyRegistry:
    """Knows every schema; ids of the target are higher by a thousand."""

    def schema(self, schema_id: int) -> Schema:
        return Schema("AVRO", f'"{schema_id}"', ())

    def places(self, schema_id: int, deleted: bool = False) -> Sequence[SubjectVersion]:
        return [SubjectVersion("orders-value", schema_id)]

    def versions(self, subject: str) -> Sequence[int]:
        return [1]

    def version(self, subject: str, version: int) -> Schema:
        return self.schema(version)

    def register(self, subject: str, schema: Schema) -> int:
        return int(schema.text.strip('"')) + 1000

    def id_of(self, subject: str, schema: Schema) -> int:
        return self.register(subject, schema)

    def version_of(self, subject: str, schema: Schema) -> int:
        return 1

    def references(self, schema: Schema) -> Sequence[Reference]:
        return ()


def _schema_mapper(facets: dict[Facet, bool]) -> Stage:
    return SchemaMapper(SchemaIds(_AnyRegistry(), _AnyRegistry()), lambda topic: facets, lambda topic: topic)


def _tracing(offset: bool) -> AddedHeaders:
    wanted = ["topic", "partition", "pipeline", *(["offset"] if offset else [])]
    flags = TracingFlags.model_validate(dict.fromkeys(wanted, "enabled"))
    return tracing_headers(flags, TracingHeaders(), "orders-to-target")


def _row(what: str, stage: Stage, keys: bool) -> list[str]:
    return [what, *(f"{_microseconds(stage, records(size, keys)):.2f}" for size in SIZES)]


def records(size: int, keys: bool) -> Records:
    """Records whose values, and keys if wanted, begin with one of some schema ids."""
    prefixes = [prefix_of(1 + number % IDS) for number in range(RECORDS)]
    named = [(prefix if keys else b"") + b"key-%d" % number for number, prefix in enumerate(prefixes)]
    return Records(named, [prefix + bytes(size - len(prefix)) for prefix in prefixes])


def _microseconds(stage: Stage, of: Records) -> float:
    """The stage and a look at what it leaves, without the same look at what it was given."""

    def looked_at(chunk: Chunk) -> None:
        chunk.records.size()
        chunk.written_headers()

    def chunk() -> Chunk:
        return Chunk(TopicPartition("orders", 0), of, "orders", 0)

    calls = (lambda: looked_at(stage(chunk())), lambda: looked_at(chunk()))
    with_stage, without = (min(timeit.repeat(call, number=1, repeat=REPEAT)) for call in calls)
    return (with_stage - without) / len(of) * 1e6


def _in_batches(stage: Stage, size: int, keys: bool) -> float:
    """The stage over one batch that nobody has decoded."""
    of = records(size, keys)
    packed_records: list[Record] = [(key, value, (), 0) for key, value in zip(of.keys(), of.values(), strict=True)]
    batch = packed(packed_records)
    frame = memoryview(stamped(batch) + bytes(batch.payload))
    found = arrived(batch_at(frame, 0, len(frame)), 0)
    assert found is not None
    source = TopicPartition("orders", 0)

    def run() -> Chunk:
        return stage(Chunk(source, BatchRecords(source, [found]), "orders", 0))

    return min(timeit.repeat(run, number=1, repeat=REPEAT)) / len(of) * 1e6


if __name__ == "__main__":
    main()
