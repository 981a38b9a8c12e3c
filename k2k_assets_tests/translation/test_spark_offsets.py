"""Spark's offsets as text: in a checkpoint, and for `startingOffsets`."""

from __future__ import annotations

import pytest

from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.translation.spark_offsets import parse, render

OFFSETS = {TopicPartition("a.b", 0): 23, TopicPartition("a.b", 10): 0, TopicPartition("c", 2): 7}
LINE = '{"a.b":{"0":23,"10":0},"c":{"2":7}}'
HEAD = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{"spark.sql.shuffle.partitions":"200"}}\n'


@pytest.mark.parametrize("text", [LINE, f" {LINE}\n", f"{HEAD}{LINE}", f"{HEAD}{LINE}\n", f"{HEAD}-\n{LINE}"])
def test_is_read(text: str) -> None:
    """Offsets are read from a line alone and from a checkpoint with any head."""
    assert parse(text, "here") == OFFSETS


def test_is_written_as_spark_writes_it() -> None:
    assert render(OFFSETS) == LINE
    assert parse(render(OFFSETS), "here") == OFFSETS


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "holds no offsets"),
        ("{}", "holds no offsets"),
        ("nonsense", "holds no offsets"),
        ('{"a":23}', "holds no offsets"),
        ('{"a":{}}', "holds no offsets"),
        ('{"a":{"x":1}}', "holds no offsets"),
        ('{"a":{"0":true}}', "holds no offsets"),
        ('{"a":{"0":1.5}}', "holds no offsets"),
        (f'{HEAD}{{"logOffset":3}}', "holds no offsets"),
        (f"{LINE}\n{LINE}\n{LINE}", "holds no offsets"),
        (f"{HEAD}{LINE}\n{LINE}", "offsets of 2 Kafka sources"),
        ('{"a":{"0":-2,"1":5}}', "no offset for a-0"),
        (f'{{"a":{{"0":{2**63},"1":5}}}}', "no offset for a-0: it is larger than 9223372036854775807"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        parse(text, "here")
