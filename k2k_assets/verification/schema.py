"""Check: the runs have all columns, with the right types, without nulls, and in range (pandera on Spark)."""

from __future__ import annotations

from functools import reduce

import pandera.pyspark as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import IntegerType, LongType, StringType

from k2k_assets.verification.pandera_report import broken_rules
from k2k_assets.verification.verdict import SHOWN, Offender, Verdict, verdict

_TEXTS = ("cluster", "topic", "source_topic_id", "target_topic", "target_topic_id")
_FROM_ZERO = ("partition", "target_partition", "source_start", "target_start")


class RunsModel(pa.DataFrameModel):  # type: ignore[type-arg]  # pandera refuses the argument when it runs
    """The runs of a mapping index."""

    cluster: StringType = pa.Field(nullable=False)
    topic: StringType = pa.Field(nullable=False, str_matches=r"^[a-zA-Z0-9._-]{1,249}$")
    source_topic_id: StringType = pa.Field(nullable=False)
    partition: IntegerType = pa.Field(nullable=False, ge=0)
    target_topic: StringType = pa.Field(nullable=False, str_matches=r"^[a-zA-Z0-9._-]{1,249}$")
    target_topic_id: StringType = pa.Field(nullable=False)
    target_partition: IntegerType = pa.Field(nullable=False, ge=0)
    source_start: LongType = pa.Field(nullable=False, ge=0)
    target_start: LongType = pa.Field(nullable=False, ge=0)
    count: LongType = pa.Field(nullable=False, ge=1)

    class Config:
        """Other columns are faults."""

        strict = True


def check_schema(runs: DataFrame) -> Verdict:
    """Validates the runs.

    Args:
        runs: Runs, columns `mapping.index.schemas.RUNS`; cached by the caller, because each rule is a Spark job.
    """
    faults = broken_rules(runs, RunsModel)
    rows = runs.count()
    offenders = [*_offending_rows(runs), *(Offender(what) for what in faults)] if faults else []
    return verdict(
        offenders,
        len(faults),
        f"{rows} offset ranges keep all rules of the schema",
        {"offset_ranges": rows, "broken_rules": len(faults)},
    )


def _offending_rows(runs: DataFrame) -> list[Offender]:
    if not {*_TEXTS, *_FROM_ZERO, "count"} <= set(runs.columns):
        return []
    rules: list[Column] = [F.col(name).isNull() for name in (*_TEXTS, *_FROM_ZERO, "count")]
    rules += [F.col(name) < 0 for name in _FROM_ZERO]
    rules.append(F.col("count") < 1)
    broken = reduce(lambda one, other: one | other, rules)
    return [
        Offender(
            f"offset range {row['source_start']} -> {row['target_start']} x {row['count']} breaks a rule",
            row["topic"],
            row["partition"],
            row["source_start"],
            row["target_topic"],
            row["target_partition"],
            row["target_start"],
        )
        for row in runs.where(broken).limit(SHOWN).collect()
    ]
