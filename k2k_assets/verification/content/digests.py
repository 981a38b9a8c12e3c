"""Computes digests of records where they are read, so that the JVM gets some 32 bytes instead of each record.

Headers and timestamp have columns of their own, because the settings of the copy decide whether they are compared. A
timestamp that a broker has set is never compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import pyarrow as pa
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from k2k_assets.kafka.messages import Header, Message, headers_of
from k2k_assets.kafka.offset_ranges import OffsetRange, read_ranges
from k2k_assets.mapping.index.range_frames import ranges_frame, ranges_in
from k2k_assets.verification.content.expected_changes import ChangedRecord, ChangeRules, View
from k2k_assets.verification.content.expected_drops import ExpectedDrops
from k2k_assets.verification.content.expected_headers import ExpectedHeaders
from k2k_assets.verification.content.payloads import Payload, Payloads, without_ids

_BY_SCHEMA = StructType(
    [
        StructField("payload", BinaryType(), False),
        *(StructField(f"{facet}_schema", StringType(), True) for facet in ("key", "value")),
        *(StructField(f"{facet}_contract", ArrayType(StringType(), False), False) for facet in ("key", "value")),
    ]
)
DIGESTS = StructType(
    [
        StructField("topic", StringType(), False),
        StructField("partition", IntegerType(), False),
        StructField("offset", LongType(), False),
        StructField("content", BinaryType(), False),
        StructField("headers", BinaryType(), False),
        StructField("timestamp", LongType(), True),
        StructField("by_schema", MapType(StringType(), _BY_SCHEMA, False), False),
        StructField("expected", MapType(StringType(), BinaryType(), False), False),
        StructField("drops", MapType(StringType(), StringType(), True), False),
    ]
)
"""`content` is of key and value, as they are; `timestamp` in milliseconds since the epoch, null where a broker has set
it; `by_schema` as `content`, but without schema ids, and of a source record through the rules of `transform`, for each
word (`View.word`) that was asked for; beside it are the texts and contracts of the schemas (`SchemaDigest`), null and
empty where the registry does not have the schema;
`expected` as `headers`, but of the headers that a copy must have, for each word of headers that was asked for; `drops`
has the rule by which the record is left out, or null, for each word of rules that was asked for."""
_LEAST_TASKS, _RANGES_PER_TASK = 4, 64
_ARROW = to_arrow_schema(DIGESTS)


def digests(
    spark: SparkSession,
    properties: Mapping[str, object],
    ranges: Sequence[OffsetRange],
    payloads: Payloads,
    facets: Sequence[str] = (),
    expected: Mapping[str, ExpectedHeaders] | None = None,
    dropping: Mapping[str, ExpectedDrops] | None = None,
    changing: Mapping[str, ChangeRules] | None = None,
) -> DataFrame:
    """The records of ranges, columns `DIGESTS`.

    Args:
        spark: The session.
        properties: Consumer settings, librdkafka names, with the isolation level.
        ranges: What to read; what retention removed meanwhile is left out.
        payloads: The schemas of keys and values of this side.
        facets: Words of views, for `by_schema`.
        expected: Words of headers, for `expected`; on the source only.
        dropping: Words of rules, for `drops`; on the source only.
        changing: The rules of `transform` by their id; on the source only.
    """
    made_of, left_out_by = expected or {}, dropping or {}
    views = [(word, View.parse(word)) for word in facets]

    def _by_schema(record: _Record) -> list[tuple[str, dict[str, Any]]]:
        topic = record.message.topic()
        return [(word, _content(topic, *record.parts(view.changes), view.facets, payloads)) for word, view in views]

    def read(batches: Iterable[Any]) -> Iterator[Any]:
        opened = {name: rules.opened() for name, rules in (changing or {}).items()}
        for wanted, chunk in read_ranges(properties, ranges_in(batches), skip_deleted=True):
            own = [headers_of(message) for message in chunk]
            changed = {name: changes.of(chunk, own) for name, changes in opened.items()}
            records = [
                _Record(*each, {n: of[i] for n, of in changed.items()})
                for i, each in enumerate(zip(chunk, own, strict=True))
            ]
            columns = [
                [wanted.topic] * len(chunk),
                [wanted.partition] * len(chunk),
                [message.offset() for message in chunk],
                [_digest((message.key(), message.value()), 16) for message in chunk],
                [_headers(*each) for each in zip(chunk, own, strict=True)],
                [timestamp(message) for message in chunk],
                [_by_schema(record) for record in records],
                [[(word, record.expected_headers(made)) for word, made in made_of.items()] for record in records],
                [[(word, record.rule(drops)) for word, drops in left_out_by.items()] for record in records],
            ]
            arrays = [pa.array(column, kind.type) for column, kind in zip(columns, _ARROW, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=_ARROW)

    # A task, with the client that it opens, costs as much as some tens of short ranges.
    tasks = max(_LEAST_TASKS, len(ranges) // _RANGES_PER_TASK)
    return ranges_frame(spark, ranges, tasks).mapInArrow(read, DIGESTS)


def _content(topic: str, key: Payload, value: Payload, facets: str, payloads: Payloads) -> dict[str, Any]:
    """Key and value as they are compared through the mapping of schema ids: a `_BY_SCHEMA`."""
    of_key, of_value = payloads.schemas(topic, key, value, facets)
    return {
        "payload": _digest(without_ids(key, value, facets), 16),
        "key_schema": of_key.text if of_key else None,
        "value_schema": of_value.text if of_value else None,
        "key_contract": sorted(of_key.contract) if of_key else [],
        "value_contract": sorted(of_value.contract) if of_value else [],
    }


class _Record(NamedTuple):
    """A record, and what rules make of it, by their id; the target's have none."""

    message: Message
    own: list[Header] | None
    changed: Mapping[str, ChangedRecord]

    def parts(self, changes: str) -> tuple[Payload, Payload]:
        """Key and value."""
        found = self.changed.get(changes)
        return (found.key, found.value) if found else (self.message.key(), self.message.value())

    def expected_headers(self, made: ExpectedHeaders) -> bytes:
        """Digest of the headers that the copy must have."""
        found = self.changed.get(made.changes)
        return _headers(self.message, found.headers if found else self.own, made)

    def rule(self, drops: ExpectedDrops) -> str | None:
        """The rule that leaves the record out; None if it is copied."""
        found = self.changed.get(drops.changes)
        return rule_for(self.own, drops, found.rule if found else None)


def headers(message: Message, expected: ExpectedHeaders | None = None) -> bytes:
    """Digest of a record's headers, 8 bytes; none if there are none.

    Args:
        message: The record, whose headers were not asked for yet.
        expected: Makes the headers of its copy, of which the digest is then.
    """
    needed = expected is None or expected.own or expected.carried
    return _headers(message, headers_of(message) if needed else [], expected)


def _headers(message: Message, own: list[Header] | None, expected: ExpectedHeaders | None = None) -> bytes:
    if own is None and (expected is None or expected.own or expected.carried):
        return _digest([b"a key that is not UTF-8"], 8)  # the record is never copied with them
    found = own or []
    if expected:
        found = expected.of(message.topic(), message.partition(), message.offset(), found)
    fields = [field for name, value in found for field in (name.encode(), value)]
    return _digest(fields, 8) if fields else b""


def rule_for(own: list[Header] | None, drops: ExpectedDrops, changed_by: str | None = None) -> str | None:
    """Name of the rule that leaves a record out; None if it is copied, or if the copy stops at it.

    Args:
        own: From `headers_of`.
        drops: The rules.
        changed_by: The rule of `transform` that leaves it out, if any does.
    """
    if own is None:
        return None if drops.header else changed_by
    return drops.rule_for(own, changed_by)


def timestamp(message: Message) -> int | None:
    """A record's timestamp in milliseconds since the epoch; None if a broker has set it."""
    kind, milliseconds = message.timestamp()
    if kind == TIMESTAMP_LOG_APPEND_TIME:
        return None
    return milliseconds or 1  # a copy has 1 instead of 0, which the client cannot write


def digest(
    message: Message,
    payloads: tuple[Payload, Payload],
    with_headers: bool,
    with_timestamp: bool,
    expected: ExpectedHeaders | None = None,
    drops: ExpectedDrops | None = None,
    changed: ChangedRecord | None = None,
) -> bytes | None:
    """Digest of all of a record that is to be compared.

    Args:
        message: The record.
        payloads: Its key and value, as they are compared.
        with_headers: Whether headers are.
        with_timestamp: Whether the timestamp is, even one that a broker has set.
        expected: Of a source record, makes the headers of its copy, which are compared then.
        drops: Of a source record, the rules by which it may be left out.
        changed: Of a source record, what the rules of `transform` make of it; `payloads` are of that already.

    Returns:
        The digest; None if a rule leaves the record out.
    """
    own = changed.read if changed else headers_of(message) if with_headers or drops else []
    if drops and rule_for(own, drops, changed.rule if changed else None):
        return None
    fields = [_digest(payloads, 16)]
    if with_headers:
        fields.append(_headers(message, changed.headers if changed else own, expected))
    if with_timestamp:
        fields.append(b"@%d" % (message.timestamp()[1] or 1))
    return b"".join(fields)


def _digest(fields: Iterable[bytes | None], size: int) -> bytes:
    made = blake2b(digest_size=size)
    for field in fields:
        # The encoding is injective: null differs from empty, and no two lists of fields give the same bytes.
        made.update(b"-" if field is None else b"%d:" % len(field))
        made.update(field or b"")
    return made.digest()
