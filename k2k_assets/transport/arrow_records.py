"""Records of a source partition as Arrow, for functions of users. Only these need Arrow, which is slow to import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.headers import Headers

if TYPE_CHECKING:
    import pyarrow as pa


def arrow_records(
    source: TopicPartition,
    offsets: Sequence[int],
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    timestamps: Sequence[int],
    headers: Sequence[Headers | None],
) -> pa.RecordBatch:
    """Records of a source partition as Arrow, columns `arrow_schema`."""
    import pyarrow as pa

    n = len(offsets)
    made = [None if h is None else [{"key": key, "value": value} for key, value in h] for h in headers]
    schema = arrow_schema()
    columns = [[source.topic] * n, [source.partition] * n, offsets, keys, values, timestamps, made]
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def arrow_schema() -> pa.Schema:
    """The Arrow schema of records."""
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("timestamp", pa.int64()),
            ("headers", pa.list_(header)),
        ]
    )
