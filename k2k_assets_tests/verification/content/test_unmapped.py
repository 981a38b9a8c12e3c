"""Which part of the target is searched for unmapped records, and how they are reported; without clusters."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.index.schemas import RUNS
from k2k_assets.verification.content.unmapped import Span, runs_holding, to_read, unmapped, within

_PAIRS = "target_topic string, target_partition int, target_offset long"


def span(piece: int, start: int, end: int, alone: bool = False) -> Span:
    return Span("s", 0, piece, "t", "tid", 0, alone, start, end)


def test_between_the_copies_of_one_that_is_alone_everything_is_read() -> None:
    parts = [span(0, 0, 900, True), span(0, 3000, 3900, True), span(0, 1000, 2900, True), span(5000, 5000, 5900, True)]
    assert to_read(parts) == [span(0, 0, 3900, True), span(5000, 5000, 5900, True)]


def test_what_others_wrote_between_copies_is_not_read() -> None:
    """A slow topic beside a fast one in the same target: its few copies may span the whole log."""
    parts = [span(0, 0, 10), span(0, 1_000_000_000, 1_000_000_010)]
    assert to_read(parts) == parts


def test_a_record_in_many_spans_is_found_once() -> None:
    many = [span(piece, 0, 1_000_000) for piece in range(1000)]
    offsets = np.arange(100_000)
    found = within(many, offsets)
    assert [offset for _, offset in found] == offsets.tolist()
    alone = span(0, 10, 12, alone=True)
    assert [(each, offset) for each, offset in within([*many, alone], offsets) if each.alone] == [
        (alone, 10),
        (alone, 11),
    ]


def test_what_lies_beside_spans_is_not_found() -> None:
    assert within([span(0, 5, 7), span(1, 20, 30)], np.array([4, 7, 19, 30])) == []


def test_of_many_runs_only_those_that_hold_something_are_looked_at() -> None:
    runs = [("t", 0, 0, 5), ("t", 1, 4, 2), ("t", 0, 6, 4), ("another", 0, 0, 100), ("t", 0, 20, 1), ("t", 1, 2, 2)]
    table = pa.Table.from_pylist(
        [dict(zip(("target_topic", "target_partition", "target_start", "count"), run, strict=True)) for run in runs]
    )
    offsets = {TopicPartition("t", 0): np.array([4, 5, 10, 19, 20]), TopicPartition("t", 1): np.array([4])}
    found = [tuple(row.values()) for row in runs_holding(offsets, table).to_pylist()]
    assert sorted(found) == [("t", 0, 0, 5), ("t", 0, 20, 1), ("t", 1, 4, 2)]
    assert len(runs_holding(offsets, table.slice(0, 0))) == 0


@pytest.mark.spark
def test_no_number_of_records_beside_spans_hides_one_within(spark: SparkSession) -> None:
    """Stretches near each other are read together: what lies between them belongs to other runs, and is most of it."""
    spans = [span(0, 0, 10), span(0, 1000, 1010, alone=True), span(5, 2000, 2010, alone=True)]
    copied = [offset for each in spans for offset in range(each.start, each.end) if offset not in (5, 1005)]
    pairs = spark.createDataFrame([("t", 0, offset) for offset in copied], _PAIRS)
    on_target = spark.createDataFrame(
        [("t", 0, offset) for offset in range(2010)], "topic string, partition int, offset long"
    )
    no_runs = spark.createDataFrame([], RUNS)
    assert unmapped(spans, pairs, on_target, no_runs, most=1) == [(spans[1], 1005), (spans[0], 5)]
    mapped = spark.createDataFrame([("c", "s2", "x", 0, "t", "tid", 0, 0, 5, 1)], RUNS)
    assert unmapped(spans, pairs, on_target, mapped, most=1) == [(spans[1], 1005)]
    assert unmapped(spans[2:], pairs, on_target, no_runs) == []
