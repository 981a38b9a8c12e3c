"""Checks on the runs alone: each rule has a row that breaks it, and the check fails on it."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from k2k_assets.mapping.index.schemas import COVERAGE, RUNS
from k2k_assets.verification.order import check_order
from k2k_assets.verification.schema import check_schema
from k2k_assets.verification.verdict import Judgement, Verdict

pytestmark = pytest.mark.spark

Row = tuple[str, str, str, int, str, str, int, int, int, int]


def _run(source: int, target: int, count: int, partition: int = 0, target_partition: int = 0) -> Row:
    return ("cluster", "orders", "sid", partition, "orders", "tid", target_partition, source, target, count)


def _frame(spark: SparkSession, *rows: Row) -> DataFrame:
    return spark.createDataFrame(list(rows), RUNS)


def _coverage(spark: SparkSession, *rows: tuple[int, int, int]) -> DataFrame:
    """Partition, begin and end of each."""
    return spark.createDataFrame([("cluster", "orders", "sid", *row, 1, 1) for row in rows], COVERAGE)


def check(spark: SparkSession, runs: DataFrame) -> Verdict:
    return check_schema(runs, _coverage(spark, (0, 0, 100)))


def test_good_runs_pass_both(spark: SparkSession) -> None:
    runs = _frame(spark, _run(0, 0, 10), _run(12, 11, 3), _run(0, 14, 5, partition=1), _run(15, 0, 5, 0, 1)).cache()
    for verdict in (check(spark, runs), check_order(runs)):
        assert verdict.passed, verdict
        assert verdict.counts["offset_ranges"] == 4


def test_no_runs_pass_both(spark: SparkSession) -> None:
    assert check_schema(_frame(spark), _coverage(spark)).passed
    assert check_order(_frame(spark)).passed


def test_values_out_of_their_range_fail_the_schema(spark: SparkSession) -> None:
    bad = [_run(-1, 0, 1), _run(1, -1, 1), _run(2, 0, 0), _run(3, 0, 1, partition=-1)]
    verdict = check(spark, _frame(spark, _run(50, 50, 5), *bad))
    assert verdict.judgement is Judgement.FAILED
    found = {(offender.source_offset, offender.target_offset) for offender in verdict.offenders}
    assert found - {(None, None)} == {(row[7], row[8]) for row in bad}, "beside the rules themselves"


def test_a_covered_range_out_of_its_range_fails_the_schema(spark: SparkSession) -> None:
    verdict = check_schema(_frame(spark, _run(0, 0, 1)), _coverage(spark, (0, 0, 5), (1, -3, 5)))
    assert verdict.judgement is Judgement.FAILED
    assert (verdict.offenders[0].partition, verdict.offenders[0].source_offset) == (1, -3)


def test_a_missing_column_fails_the_schema(spark: SparkSession) -> None:
    verdict = check(spark, _frame(spark, _run(0, 0, 1)).drop("target_start"))
    assert verdict.judgement is Judgement.FAILED
    assert "target_start" in verdict.summary


def test_disorder_fails_with_its_row(spark: SparkSession) -> None:
    on_source, back, twice = (
        "overlaps the range before it on the source",
        "goes back on the target",
        "overlaps another range on the target",
    )
    cases = [
        (_run(0, 0, 10), _run(9, 20, 5), on_source),
        (_run(0, 100, 10), _run(20, 50, 5), back),
        (_run(0, 100, 10), _run(10, 109, 5), back),
        (_run(0, 100, 10), _run(0, 109, 10, partition=1), twice),
        (_run(0, 0, 10), _run(9, 20, 5, 0, 1), on_source),
    ]
    rows = [_of(f"topic-{n}", row) for n, (*pair, _) in enumerate(cases) for row in pair]
    verdict = check_order(_frame(spark, *rows))
    assert verdict.judgement is Judgement.FAILED
    found = {each.topic: each for each in verdict.offenders}
    assert len(found) == len(verdict.offenders) == len(cases)
    for n, (_, wrong, says) in enumerate(cases):
        offender = found[f"topic-{n}"]
        assert says in offender.what
        assert (offender.source_offset, offender.target_offset) == (wrong[7], wrong[8])


def _of(topic: str, row: Row) -> Row:
    cluster, _, source_id, partition, _, target_id, target_partition, source, target, count = row
    return (cluster, topic, source_id, partition, topic, target_id, target_partition, source, target, count)
