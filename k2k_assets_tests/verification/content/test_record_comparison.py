"""What becomes of records that cannot be judged now, and in which order both sides are read; without clusters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from k2k_assets.verification.content.check import read_now
from k2k_assets.verification.content.digests import DIGESTS
from k2k_assets.verification.content.record_comparison import compare
from k2k_assets.verification.content.sides import LIMITS
from k2k_assets.verification.content.tally import (
    DIFFERENT,
    EQUAL,
    GONE,
    HIDDEN,
    NO_SCHEMA,
    NO_SCHEMA_ON_TARGET,
    NO_SOURCE,
    NO_TARGET,
    OTHER,
    OTHER_RULES,
)

pytestmark = pytest.mark.spark

_PAIRS = (
    "topic string, partition int, source_offset long, target_topic string, target_topic_id string, "
    "target_partition int, target_offset long, rule string, headers boolean, timestamps boolean, noted boolean, "
    "schemas string, added string, drops string"
)
_ALL = {0, 1, 2}


def _records(spark: SparkSession, offsets: set[int]) -> DataFrame:
    rows: list[tuple[Any, ...]] = [("t", 0, offset, b"%d" % offset, b"", 0, {}, {}, {}) for offset in sorted(offsets)]
    return spark.createDataFrame(rows, DIGESTS)


def _outcomes(spark: SparkSession, source: set[int], target: set[int], *limits: tuple[object, ...]) -> list[str]:
    """Of three records that are mapped to the same offsets, where some were read on either side."""
    pairs = [("t", 0, n, "t", "today", 0, n, None, True, True, True, "", "", "") for n in sorted(_ALL)]
    compared = compare(
        spark.createDataFrame(pairs, _PAIRS),
        _records(spark, source),
        _records(spark, target),
        spark.createDataFrame(list(limits), LIMITS),
    )
    return [row["outcome"] for row in compared.orderBy("source_offset").collect()]


def _limit(side: str, low: int | None = 0, high: int | None = 3, topic_id: str = "today") -> tuple[object, ...]:
    return (side, "t", topic_id, 0, low, 3, high, False)


@pytest.mark.slow
def test_a_record_is_missed_only_where_there_is_a_leader_to_ask(spark: SparkSession) -> None:
    both = (_limit("source"), _limit("target"))
    assert _outcomes(spark, _ALL, {0, 2}, *both) == [EQUAL, NO_TARGET, EQUAL]
    assert _outcomes(spark, {0, 2}, _ALL, *both) == [EQUAL, NO_SOURCE, EQUAL]
    of_target = (_limit("source"), _limit("target", None, None))
    assert _outcomes(spark, _ALL, {0, 2}, *of_target) == [EQUAL, HIDDEN, EQUAL]
    of_source = (_limit("source", None, None), _limit("target"))
    assert _outcomes(spark, {0, 2}, _ALL, *of_source) == [EQUAL, HIDDEN, EQUAL]


def test_copies_in_a_former_topic_are_gone(spark: SparkSession) -> None:
    assert _outcomes(spark, _ALL, set(), _limit("source"), _limit("target", topic_id="new")) == [GONE] * 3


def test_each_side_is_read_once_though_it_is_read_in_parts(spark: SparkSession, tmp_path: Path) -> None:
    """Under two isolation levels one side is a union: Spark merges that into the union around it."""
    (reads := tmp_path / "reads").mkdir()

    def counted(name: str) -> DataFrame:
        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            with (reads / name).open("a") as times:
                times.write("x")
            yield from batches

        return spark.range(0, 3, 1, 1).withColumnRenamed("id", "offset").mapInArrow(read, "offset long")

    on_source = counted("committed").union(counted("uncommitted")).cache()
    on_target = counted("target").cache()
    read_now(on_source, on_target)
    assert (on_source.count(), on_target.count()) == (6, 3)
    times = {file.name: file.read_text() for file in reads.iterdir()}
    assert times == {"committed": "x", "uncommitted": "x", "target": "x"}


def _schemas(payload: bytes, key: str | None, value: str | None, *rules: str) -> tuple[Any, ...]:
    """What is compared of a record, as in `DIGESTS`; the rules are of the value's schema."""
    return (payload, key, value, [], list(rules))


KNOWN, GONE_SCHEMA, RULED = _schemas(b"p", "", "s"), _schemas(b"p", "", None), _schemas(b"p", "", "s", "a", "b")


# Of the source and of the target, the timestamp on the target, whether the settings are noted, and the outcome.
CASES = [
    (KNOWN, KNOWN, 0, True, EQUAL),
    (KNOWN, _schemas(b"p", "", "t"), 0, True, DIFFERENT),
    (KNOWN, RULED, 0, True, EQUAL),
    (RULED, RULED, 0, True, EQUAL),
    (RULED, _schemas(b"p", "", "s", "b", "more", "a"), 0, True, EQUAL),
    (RULED, KNOWN, 0, True, OTHER_RULES),
    (RULED, _schemas(b"p", "", "s", "b"), 0, True, OTHER_RULES),
    (RULED, _schemas(b"q", "", "s"), 0, True, DIFFERENT),
    (RULED, KNOWN, 9, True, DIFFERENT),
    (RULED, KNOWN, 9, False, OTHER),
    (RULED, GONE_SCHEMA, 0, True, NO_SCHEMA_ON_TARGET),
    (KNOWN, GONE_SCHEMA, 0, True, NO_SCHEMA_ON_TARGET),
    (KNOWN, GONE_SCHEMA, 9, True, DIFFERENT),
    (GONE_SCHEMA, RULED, 0, True, NO_SCHEMA),
    (GONE_SCHEMA, GONE_SCHEMA, 0, False, NO_SCHEMA),
    (GONE_SCHEMA, _schemas(b"q", "", "s"), 0, True, DIFFERENT),
    (GONE_SCHEMA, KNOWN, 9, True, DIFFERENT),
    (GONE_SCHEMA, KNOWN, 9, False, NO_SCHEMA),
    (_schemas(b"p", None, "s"), _schemas(b"p", "k", "t"), 0, True, DIFFERENT),
    (_schemas(b"p", "k", "s"), _schemas(b"p", None, "t"), 0, True, DIFFERENT),
    (_schemas(b"p", "k", None), _schemas(b"p", None, "s"), 0, True, NO_SCHEMA_ON_TARGET),
]


def test_schemas_are_compared_as_far_as_both_registries_have_them(spark: SparkSession) -> None:
    def digests(number: int, content: tuple[Any, ...], timestamp: int) -> tuple[Any, ...]:
        return ("t", 0, number, b"", b"", timestamp, {"key value": content}, {}, {})

    pairs, originals, copies = [], [], []
    for number, (ours, theirs, timestamp, noted, _) in enumerate(CASES):
        pairs.append(("t", 0, number, "t", "today", 0, number, None, True, True, noted, "key value", "", ""))
        originals.append(digests(number, ours, 0))
        copies.append(digests(number, theirs, timestamp))
    limits = spark.createDataFrame([_limit(side, high=len(CASES)) for side in ("source", "target")], LIMITS)
    on_source, on_target = (spark.createDataFrame(rows, DIGESTS) for rows in (originals, copies))
    found = compare(spark.createDataFrame(pairs, _PAIRS), on_source, on_target, limits).collect()
    outcomes = {row["source_offset"]: row["outcome"] for row in found}
    assert outcomes == {number: case[-1] for number, case in enumerate(CASES)}
