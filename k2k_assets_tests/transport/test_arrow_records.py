"""Records as Arrow: nothing is lost, and nothing becomes something else."""

from __future__ import annotations

import pyarrow as pa

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.arrow_records import arrow_records, arrow_schema

SOURCE = TopicPartition("orders", 3)


def test_every_column_arrives_null_and_empty_apart() -> None:
    batch = arrow_records(
        SOURCE,
        [5, 6, 9],
        [b"k", None, b""],
        [b"", b"\xff\x00", None],
        [1, -1, 2**41],
        [None, [], [("a", b"1"), ("a", b"1"), ("ü", None), ("", b"")]],
    )

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


def test_a_million_bytes_are_not_copied_into_strings() -> None:
    value = bytes(range(256)) * 4000
    batch = arrow_records(SOURCE, [0], [b"k"], [value], [1], [None])
    assert batch.column("value").type == pa.binary()
    assert batch.column("value")[0].as_py() == value
