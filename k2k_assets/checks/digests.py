"""A digest of each record's content, made where it is read: the JVM gets 16 bytes a record instead of the record."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from k2k_assets.mapping.offset_ranges import OffsetRange, ranges_frame, ranges_in, read_range

DIGESTS = StructType(
    [
        StructField("topic", StringType(), False),
        StructField("partition", IntegerType(), False),
        StructField("offset", LongType(), False),
        StructField("digest", BinaryType(), False),
    ]
)
_ARROW = to_arrow_schema(DIGESTS)


def digests(
    spark: SparkSession,
    properties: Mapping[str, object],
    ranges: Sequence[OffsetRange],
    headers: bool,
    timestamps_of: Collection[str],
) -> DataFrame:
    """The committed records of ranges, columns `DIGESTS`.

    Args:
        spark: Runs the reading.
        properties: Consumer settings, librdkafka names.
        ranges: What to read; what retention removed meanwhile is left out.
        headers: Whether headers are part of the content.
        timestamps_of: Topics in which the timestamp is.
    """
    with_timestamp = frozenset(timestamps_of)

    def read(batches: Iterable[Any]) -> Iterator[Any]:
        for wanted in ranges_in(batches):
            timestamp = wanted.topic in with_timestamp
            for chunk in read_range(properties, wanted, skip_deleted=True):
                columns = [
                    [wanted.topic] * len(chunk),
                    [wanted.partition] * len(chunk),
                    [message.offset() for message in chunk],
                    [digest(message, headers, timestamp) for message in chunk],
                ]
                arrays = [pa.array(column, kind.type) for column, kind in zip(columns, _ARROW, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=_ARROW)

    return ranges_frame(spark, ranges).mapInArrow(read, DIGESTS)


def digest(message: Any, headers: bool, timestamp: bool) -> bytes:
    """Digest of one record's content, 16 bytes.

    Args:
        message: The record.
        headers: Whether headers are part of the content.
        timestamp: Whether the timestamp is.
    """
    fields: list[bytes | None] = [message.key(), message.value()]
    if headers:
        fields += _headers(message)
    made = blake2b(digest_size=16)
    for field in fields:
        # Null and empty differ, and no two lists of fields give the same bytes.
        made.update(b"-" if field is None else b"%d:" % len(field))
        made.update(field or b"")
    if timestamp:
        made.update(b"@%d" % (message.timestamp()[1] or 1))  # 0 cannot be written: its copy has 1
    return made.digest()


def _headers(message: Any) -> list[bytes | None]:
    try:
        return [field for name, value in message.headers() or () for field in (name.encode(), value)]
    except SystemError:
        return [b"a key that is not UTF-8"]  # the client cannot read it; such a record is never copied
