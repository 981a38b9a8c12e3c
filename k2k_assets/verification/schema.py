"""Check: the index has all columns, with the right types, without nulls, and in range (pandera on Spark)."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, Row

from k2k_assets.core.words import plural
from k2k_assets.verification.models import CoverageModel, RunsModel
from k2k_assets.verification.pandera_report import broken_rules, offending_rows
from k2k_assets.verification.verdict import SHOWN, Offender, Verdict, verdict


def check_schema(runs: DataFrame, coverage: DataFrame) -> Verdict:
    """Validates the tables of a mapping index.

    Args:
        runs: Runs, columns `mapping.index.schemas.RUNS`; cached by the caller, because each rule is a Spark job.
        coverage: Covered ranges, columns `mapping.index.schemas.COVERAGE`; likewise.
    """
    tables: tuple[tuple[DataFrame, object, Callable[[Row], Offender]], ...] = (
        (runs, RunsModel, _broken_run),
        (coverage, CoverageModel, _broken_coverage),
    )
    faults: list[str] = []
    offenders: list[Offender] = []
    for frame, model, offender in tables:
        if broken := broken_rules(frame, model):
            faults += broken
            offenders += [offender(row) for row in offending_rows(frame, model, SHOWN)]
    rows = runs.count()
    return verdict(
        [*offenders, *map(Offender, faults)],
        len(faults),
        f"{plural(rows, 'offset range keeps', 'offset ranges keep')} all rules of the schema",
        {"offset_ranges": rows, "covered_ranges": coverage.count(), "broken_rules": len(faults)},
    )


def _broken_run(row: Row) -> Offender:
    values = row.asDict()
    at, to, count = (values.get(name) for name in ("source_start", "target_start", "count"))
    return Offender(
        f"offset range {at} -> {to} x {count} breaks a rule",
        *(values.get(name) for name in ("topic", "partition", "source_start")),
        *(values.get(name) for name in ("target_topic", "target_partition", "target_start")),
    )


def _broken_coverage(row: Row) -> Offender:
    values = row.asDict()
    words = f"covered range {values.get('covered_from')} to {values.get('covered_to')} breaks a rule"
    return Offender(words, *(values.get(name) for name in ("topic", "partition", "covered_from")))
