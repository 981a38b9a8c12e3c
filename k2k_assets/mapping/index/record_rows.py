"""Parses mapping records into Arrow rows, a chunk at a time, without a Python object for each run.

There is one row for each record and target partition, with its runs packed as 64-bit triples (source start, target
start, count); a record without targets has one row without runs. There is another row for each record and rule by which
records were left out, whose "target" is `nowhere` and whose runs are the ranges that were left out.

If Arrow's parser fails on a chunk, its records are parsed one by one, so that the error names the record, and an
ignored record does not take others with it. Behind an ignored record another stretch of its source partition begins:
what lies between two stretches is unknown, and a fold would join them.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from k2k_assets.control.foreign_records import foreign_hint
from k2k_assets.control.mapping_records import VERSION, MappingKey, MappingRecord, parse_key
from k2k_assets.kafka.messages import Message
from k2k_assets.mapping.algebra.fold import nowhere

RUN_BYTES = 3 * 8
_TEXTS = ("cluster", "topic", "source_topic_id", "target_topic", "target_topic_id")
_INTS = ("partition", "target_partition")
_LONGS = ("generation", "forward_since", "sequence", "offset", "time", "covered_from", "covered_to")
ROWS = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in _TEXTS),
        *(pa.field(name, pa.int32(), nullable=False) for name in _INTS),
        *(pa.field(name, pa.int64(), nullable=False) for name in _LONGS),
        pa.field("override", pa.bool_(), nullable=False),
        pa.field("settings", pa.string(), nullable=False),
        pa.field("stretch", pa.int32(), nullable=False),
        pa.field("runs", pa.binary(), nullable=False),
    ]
)
"""`forward_since` is as in `fold.Beginning`; `offset` is the record's offset in the mapping topic; `override` says that
somebody set the position to its start by hand, so that its range was skipped; `settings` is the fingerprint of the copy
settings, empty if there is none; `stretch` is the number of times that records were passed over before the next one of
the source partition was read."""

_MAPPED = pa.struct(
    [
        ("topic", pa.string()),
        ("id", pa.string()),
        ("partition", pa.int32()),
        ("runs", pa.list_(pa.list_(pa.int64()))),
    ]
)
_DROPPED = pa.struct([("rule", pa.string()), ("ranges", pa.list_(pa.list_(pa.int64())))])
_DOCUMENT = pa.schema(
    [
        ("version", pa.int64()),
        *((name, pa.string()) for name in ("pipeline", "cluster", "sourceTopicId")),
        *((name, pa.int64()) for name in ("generation", "slot", "sequence", "time", "from", "to")),
        ("targets", pa.list_(_MAPPED)),
        ("override", pa.string()),
        ("settings", pa.string()),
        ("dropped", pa.list_(_DROPPED)),
        ("forwardSince", pa.int64()),
    ]
)
_OPTIONAL = ("override", "settings", "dropped", "forwardSince")
_SAME_NAME = ("cluster", "generation", "sequence", "time")


@dataclass
class RecordReader:
    """Reads the records of a group, from messages of one partition of the mapping topic in their order, as rows.

    Attributes:
        group: The group; records of other groups are left out unparsed.
        ignore_unreadable: Whether to pass over records that cannot be parsed, not to fail.
        splits: Whether it tells stretches apart, and forgets what was passed over where one has begun behind it.
        passed_over: Keys of the records that were passed over behind all others of the key; None: of one the key
            cannot be parsed either.
        read_behind: Keys of records that were read behind the last one whose key cannot be parsed.
    """

    group: str
    ignore_unreadable: bool
    splits: bool = True
    passed_over: set[MappingKey | None] = field(default_factory=set)
    read_behind: set[MappingKey] = field(default_factory=set)
    _stretches: dict[MappingKey, int] = field(default_factory=lambda: defaultdict(int))

    def rows(self, messages: Sequence[Message]) -> pa.RecordBatch:
        """The records of the next messages, columns `ROWS`.

        Raises:
            ValueError: A record cannot be parsed.
        """
        keyed = ((message, self._key(message)) for message in messages)
        wanted = [(message, key) for message, key in keyed if key is None or key.group == self.group]
        whole = [(message, key) for message, key in wanted if key]
        documents = _parsed_at_once([m.value() for m, _ in whole]) if len(whole) == len(wanted) else None
        if documents is None:
            read, documents = self._parsed_one_by_one(wanted)
        else:
            read = [(message, key, self._stretch(key)) for message, key in whole]
        of_topic = {
            "topic": pa.array([key.topic for _, key, _ in read], pa.string()),
            "partition": pa.array([key.partition for _, key, _ in read], pa.int32()),
            "offset": pa.array([message.offset() for message, _, _ in read], pa.int64()),
            "stretch": pa.array([stretch for _, _, stretch in read], pa.int32()),
        }
        return _rows(documents, of_topic)

    def _key(self, message: Message) -> MappingKey | None:
        try:
            return _parse_key(message.key())
        except ValueError:
            if self.ignore_unreadable:
                return None
        try:
            return parse_key(message.key(), _where(message))  # fails again, with an error that names the record
        except ValueError as error:
            hint = foreign_hint(message.key(), message.topic(), "offsetMapping.topic")
            raise ValueError(f"{error}{hint}") from None

    def _stretch(self, key: MappingKey) -> int:
        """The stretch that the next record of a key is in."""
        if not self.splits:
            return 0
        if key in self.passed_over or (None in self.passed_over and key not in self.read_behind):
            self._stretches[key] += 1
            self.passed_over.discard(key)
            self.read_behind.add(key)
        return self._stretches.get(key, 0)

    def _pass_over(self, key: MappingKey | None) -> None:
        self.passed_over.add(key)
        if key is None:
            self.read_behind.clear()

    def _parsed_one_by_one(
        self, wanted: list[tuple[Message, MappingKey | None]]
    ) -> tuple[list[tuple[Message, MappingKey, int]], pa.Table]:
        kept, tables = [], [_DOCUMENT.empty_table()]
        for message, key in wanted:
            table = self._parsed(message)
            if table is None or key is None:
                self._pass_over(key)
                continue
            tables.append(table)
            kept.append((message, key, self._stretch(key)))
        return kept, pa.concat_tables(tables)

    def _parsed(self, message: Message) -> pa.Table | None:
        try:
            return _parsed(message)
        except ValueError:
            if self.ignore_unreadable:
                return None
            raise


@lru_cache(maxsize=100_000)
def _parse_key(key: bytes | None) -> MappingKey:
    return parse_key(key, "mapping record")


def _where(message: Message) -> str:
    return f"mapping record at {message.topic()}-{message.partition()}@{message.offset()}"


def _parsed_at_once(values: list[bytes | None]) -> pa.Table | None:
    """Parses values as a table, row by row; None if they have to be parsed one by one."""
    if not values:
        return _DOCUMENT.empty_table()
    # A value with no object, or with two, would shift the rows after it.
    if not all(value and value[:1] == b"{" and value[-1:] == b"}" for value in values):
        return None
    data = b"\n".join(value for value in values if value)
    try:
        table = pyarrow.json.read_json(
            io.BytesIO(data),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=pyarrow.json.ParseOptions(explicit_schema=_DOCUMENT, unexpected_field_behavior="ignore"),
        ).select(_DOCUMENT.names)
        table.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return table if len(table) == len(values) and _complete(table) else None


def _complete(table: pa.Table) -> bool:
    """Whether all fields are there, every run is a triple, and the version is known."""
    targets = pc.list_flatten(table["targets"])
    runs = pc.list_flatten(pc.struct_field(targets, "runs"))
    dropped = pc.list_flatten(table["dropped"])
    ranges = pc.list_flatten(pc.struct_field(dropped, "ranges"))
    columns = [
        *table.drop_columns(list(_OPTIONAL)).columns,
        targets,
        *(pc.struct_field(targets, name) for name in _MAPPED.names),
        runs,
        pc.list_flatten(runs),
        dropped,
        *(pc.struct_field(dropped, name) for name in _DROPPED.names),
        ranges,
        pc.list_flatten(ranges),
    ]
    if any(column.null_count for column in columns):
        return False
    sizes = ((runs, 3), (ranges, 2))
    right = all(pc.all(pc.equal(pc.list_value_length(lists), size)).as_py() is not False for lists, size in sizes)
    versions = pc.min_max(table["version"]).as_py()
    return right and versions["min"] >= 1 and versions["max"] <= VERSION


def _parsed(message: Message) -> pa.Table:
    record = MappingRecord.parse(message.key(), message.value(), _where(message))
    try:
        table = pa.Table.from_pylist([record.document()], schema=_DOCUMENT)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise ValueError(f"{_where(message)}: field of a wrong type: {error}") from None
    if not _complete(table):
        raise ValueError(f"{_where(message)}: a field has no value")
    return table


def _rows(documents: pa.Table, of_topic: dict[str, pa.Array]) -> pa.RecordBatch:
    lists, dropped = documents["targets"].combine_chunks(), documents["dropped"].combine_chunks()
    sizes = _lengths(lists)
    records = np.arange(len(documents))
    bare = records[sizes == 0]
    by_rule = np.repeat(records, _lengths(dropped))
    record = pa.array(np.concatenate((np.repeat(records, sizes), bare, by_rule)))
    columns = {name: documents[name].combine_chunks().take(record) for name in _SAME_NAME}
    columns |= {name: column.take(record) for name, column in of_topic.items()}
    columns["source_topic_id"] = documents["sourceTopicId"].combine_chunks().take(record)
    columns["forward_since"] = (
        pc.coalesce(documents["forwardSince"], documents["generation"]).combine_chunks().take(record)
    )
    columns["covered_from"] = documents["from"].combine_chunks().take(record)
    columns["covered_to"] = documents["to"].combine_chunks().take(record)
    columns["override"] = pc.is_valid(documents["override"].combine_chunks()).take(record)
    columns["settings"] = pc.fill_null(documents["settings"].combine_chunks(), "").take(record)
    columns |= _target_columns(pc.list_flatten(lists), len(bare), pc.list_flatten(dropped))
    return pa.RecordBatch.from_arrays([columns[name] for name in ROWS.names], schema=ROWS)


def _target_columns(targets: pa.Array, bare: int, dropped: pa.Array) -> dict[str, pa.Array]:
    """The columns of the target partitions; then rows for records without targets, and for what was left out."""
    rules = pc.struct_field(dropped, "rule")

    def column(name: str, nothing: object, of_rules: pa.Array | None = None) -> pa.Array:
        filled = pc.struct_field(targets, name)
        more = pa.array([nothing] * len(rules), filled.type) if of_rules is None else of_rules
        return pa.concat_arrays([filled, pa.array([nothing] * bare, filled.type), more])

    return {
        "target_topic": column("topic", nowhere("").topic),
        "target_topic_id": column("id", "", rules),
        "target_partition": column("partition", nowhere("").partition),
        "runs": _packed(pc.struct_field(targets, "runs"), bare, pc.struct_field(dropped, "ranges")),
    }


def _packed(runs: pa.Array, bare: int, ranges: pa.Array) -> pa.Array:
    """Converts lists of triples to binary values, without copying them if no ranges were left out."""
    triples = pc.list_flatten(pc.list_flatten(runs))
    data = np.ascontiguousarray(triples.to_numpy(zero_copy_only=False), dtype="<i8")
    sizes = np.concatenate(([0], _lengths(runs) * RUN_BYTES, np.zeros(bare, np.int64)))
    if len(ranges):
        bounds = pc.list_flatten(pc.list_flatten(ranges)).to_numpy(zero_copy_only=False).reshape(-1, 2)
        starts, counts = bounds[:, 0], bounds[:, 1] - bounds[:, 0]
        data = np.concatenate((data, np.stack((starts, starts, counts), axis=1).reshape(-1))).astype("<i8")
        sizes = np.concatenate((sizes, _lengths(ranges) * RUN_BYTES))
    ends = np.cumsum(sizes)
    if ends[-1] > np.iinfo(np.int32).max:
        raise ValueError("the mapping records of one chunk are too large")
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, buffers)


def _lengths(lists: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False), dtype=np.int64)
