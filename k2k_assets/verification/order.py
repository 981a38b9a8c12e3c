"""Check: runs are ordered and disjoint on both sides.

On the source side no offset of a partition is mapped twice. On the target side no offset is the copy of two records.
Between one source and one target partition both offsets rise together.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from k2k_assets.core.words import plural
from k2k_assets.mapping.index.schemas import SOURCE_PARTITION
from k2k_assets.verification.verdict import SHOWN, Offender, Verdict, verdict

_TARGET_PARTITION = ("target_topic", "target_topic_id", "target_partition")


def check_order(runs: DataFrame) -> Verdict:
    """Compares each run with the one before it, on both sides.

    Args:
        runs: Runs of any number of partitions, columns `mapping.index.schemas.RUNS`.
    """
    source_end = F.col("source_start") + F.col("count")
    target_end = F.col("target_start") + F.col("count")
    by_source = Window.partitionBy(*SOURCE_PARTITION).orderBy("source_start", "target_start")
    by_pair = Window.partitionBy(*SOURCE_PARTITION, *_TARGET_PARTITION).orderBy("source_start", "target_start")
    by_target = Window.partitionBy(*_TARGET_PARTITION).orderBy("target_start", "source_start")
    judged = runs.select(
        "*",
        F.lag(source_end).over(by_source).alias("source_end_before"),
        F.lag(target_end).over(by_pair).alias("pair_end_before"),
        F.lag(target_end).over(by_target).alias("target_end_before"),
    ).select(
        "*",
        F.when(F.col("source_end_before") > F.col("source_start"), "overlaps the range before it on the source")
        .when(F.col("pair_end_before") > F.col("target_start"), "goes back on the target")
        .when(F.col("target_end_before") > F.col("target_start"), "overlaps another range on the target")
        .alias("fault"),
    )
    totals = judged.agg(F.count("*").alias("ranges"), F.count("fault").alias("faults")).collect()[0]
    offenders = []
    if totals["faults"]:
        first = judged.where("fault is not null").orderBy(*SOURCE_PARTITION, "source_start").limit(SHOWN)
        offenders = [
            Offender(
                f"offset range {row['source_start']} -> {row['target_start']} x {row['count']} {row['fault']}",
                row["topic"],
                row["partition"],
                row["source_start"],
                row["target_topic"],
                row["target_partition"],
                row["target_start"],
            )
            for row in first.collect()
        ]
    counts = {"offset_ranges": totals["ranges"], "offending_offset_ranges": totals["faults"]}
    rise = plural(totals["ranges"], "offset range rises", "offset ranges rise")
    return verdict(offenders, totals["faults"], f"{rise} on both sides without overlap", counts)
