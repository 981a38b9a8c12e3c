"""A chunk as Arrow, for checks and later stages."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.chunk import ARROW_DDL, Chunk, Sent, arrow_schema
from k2k_assets_tests.support.fake_transport import ListRecords

SOURCE = TopicPartition("orders", 3)


def test_every_column_arrives_null_and_empty_apart() -> None:
    records = ListRecords(
        [5, 6, 9],
        [b"k", None, b""],
        [b"", b"\xff\x00", None],
        [1, -1, 2**41],
        [None, [], [("a", b"1"), ("a", b"1"), ("ü", None), ("", b"")]],
    )
    batch = Chunk(SOURCE, records, "there").to_arrow()

    assert batch.schema == arrow_schema()
    assert batch.to_pydict() == {
        "topic": ["orders"] * 3,
        "partition": [3] * 3,
        "offset": [5, 6, 9],
        "key": [b"k", None, b""],
        "value": [b"", b"\xff\x00", None],
        "timestamp": [1, -1, 2**41],
        "headers": [
            None,
            [],
            [
                {"key": "a", "value": b"1"},
                {"key": "a", "value": b"1"},
                {"key": "ü", "value": None},
                {"key": "", "value": b""},
            ],
        ],
    }


def test_the_types_are_those_that_spark_is_told() -> None:
    """Spark compares them exactly and fails with an obscure error."""
    spark_types = {field.name: field.dataType.simpleString() for field in from_arrow_schema(arrow_schema()).fields}
    assert ARROW_DDL.replace(": ", ":") == ", ".join(f"{name} {kind}" for name, kind in spark_types.items()).replace(
        ",value", ", value"
    )


@pytest.mark.parametrize(("offsets", "answer"), [([7], True), ([7, 8, 9], True), ([7, 9], False)])
def test_what_is_remembered_of_a_chunk_is_where_it_came_from(offsets: list[int], answer: bool) -> None:
    chunk = Chunk(SOURCE, ListRecords(offsets), "there")
    assert chunk.contiguous is answer

    sent = Sent(chunk)
    assert sent.contiguous is answer
    assert list(sent.offsets) == offsets
    assert (sent.count, sent.first_offset, sent.last_offset) == (len(offsets), offsets[0], offsets[-1])
    assert (sent.source, sent.target_topic) == (SOURCE, "there")


def test_a_million_bytes_are_not_copied_into_strings() -> None:
    value = bytes(range(256)) * 4000
    batch = Chunk(SOURCE, ListRecords([0], [b"k"], [value], [1])).to_arrow()
    assert batch.column("value").type == pa.binary()
    assert batch.column("value")[0].as_py() == value
