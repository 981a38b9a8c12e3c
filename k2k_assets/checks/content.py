"""Check: sampled stretches hold the same records, in the same order, on both clusters.

Every source record of a stretch must have its copy where the mapping says, with the same content, and every mapped
offset must hold a record. A record in a hole between two runs was not copied: the hole is not proven.

```
  source     100 101 102  .   .  105 106      a record at 103 or 104: missing on the target
              |   |   |           |   |       the records are compared pair by pair
  target     900 901 902  |      904 905      no record at 901, or another one: missing, or swapped
```

What retention or compaction removed on one side is *not comparable*: counted, never a failure. Nor is what was skipped
by hand (`k2k-tool set`): it is counted, and shown.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from k2k_assets.checks.comparison import LIMITS, Comparison, plan_comparison
from k2k_assets.checks.digests import digests
from k2k_assets.checks.verdict import SHOWN, Offender, Verdict, verdict
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.mapping.index import MappingIndex
from k2k_assets.mapping.offset_ranges import RANGES
from k2k_assets.pipeline import Pipeline
from k2k_assets.topic_partition import TopicPartition

EQUAL, GONE, HELD, SKIPPED = "equal", "gone", "held", "skipped by hand"
_NO_FAULT = (EQUAL, GONE, HELD, SKIPPED)
DIFFERENT = "differs in content from its copy"
NOT_COPIED = "is on the source, but was not copied"
NO_SOURCE = "is mapped, but there is no such record on the source"
NO_TARGET = "is mapped, but there is no such record on the target"
_NEAR = 1000
BEYOND = "is mapped beyond the target's high watermark"


def check_content(
    spark: SparkSession, pipeline: Pipeline, index: MappingIndex, source: Cluster, target: Cluster
) -> Verdict:
    """Compares sampled stretches of all topics that still exist on both sides.

    Raises:
        ClusterUnreachable: A cluster does not answer.
    """
    plan = plan_comparison(spark, pipeline, index, source, target)
    mapped = index.manifest.mapped
    if not plan.stretches:
        doubt = "nothing could be compared: nothing of what is mapped can be read on the source" if mapped else None
        counts = {"compared": 0, "former_topics": plan.former_topics, "without_leader": len(plan.leaderless)}
        return verdict([], 0, "nothing is mapped yet", counts, doubt and doubt + _left_out(plan))
    outcome = _outcomes(spark, pipeline, index, plan).cache()
    try:
        counted = {row["outcome"]: row["count"] for row in outcome.groupBy("outcome").count().collect()}
        faults = sum(count for name, count in counted.items() if name not in _NO_FAULT)
        offenders = _offenders(outcome) if faults else []
    finally:
        outcome.unpersist()
    gone = counted.get(GONE, 0) + counted.get(HELD, 0)
    equal = counted.get(EQUAL, 0)
    counts = {
        "compared": equal + counted.get(DIFFERENT, 0),
        "equal": equal,
        "not_comparable": gone,
        "skipped_by_hand": counted.get(SKIPPED, 0),
        "stretches": len(plan.stretches),
        "former_topics": plan.former_topics,
        "without_leader": len(plan.leaderless),
        "offending": faults,
    }
    doubt = f"nothing could be compared: {gone} records are gone on one side" if mapped and not equal else None
    good = f"{equal} records are the same on both clusters{_skipped(plan)}{_left_out(plan)}"
    return verdict(offenders, faults, good, counts, doubt and doubt + _left_out(plan))


def _skipped(plan: Comparison) -> str:
    """What was skipped by hand, in words; nothing if nothing was."""
    if not plan.skipped:
        return ""
    topic, partition, start, end = plan.skipped[0]
    more = f" and {len(plan.skipped) - 1} more ranges" if len(plan.skipped) > 1 else ""
    return f"; skipped by hand: {topic}-{partition} from {start} to {end - 1}{more}"


def _left_out(plan: Comparison) -> str:
    """What could not be looked at, in words; nothing if all could be."""
    if not plan.leaderless:
        return ""
    first = next(iter(plan.leaderless.values()))
    return f"; {len(plan.leaderless)} partitions have no leader and were not looked at: {first}"


def clipped_runs(spark: SparkSession, runs: DataFrame, plan: Comparison) -> DataFrame:
    """The parts of runs that lie in stretches: columns of the runs, source_start to count clipped.

    Args:
        spark: Makes the frame of stretches.
        runs: Columns `mapping.index.schemas.RUNS`.
        plan: The stretches, and the source topic ids that count.
    """
    ids = spark.createDataFrame(plan.source_ids(), "topic string, source_topic_id string")
    pieces = spark.createDataFrame(plan.stretches, RANGES).join(ids, "topic")
    start = F.greatest("source_start", "start")
    end = F.least(F.col("source_start") + F.col("count"), F.col("end"))
    of_today = runs.where(F.col("cluster") == plan.source_cluster)
    return (
        of_today.join(F.broadcast(pieces), ["topic", "source_topic_id", "partition"])
        .where((F.col("source_start") < F.col("end")) & (F.col("source_start") + F.col("count") > F.col("start")))
        .select(
            "topic",
            "partition",
            "target_topic",
            "target_topic_id",
            "target_partition",
            start.alias("source_start"),
            (F.col("target_start") + start - F.col("source_start")).alias("target_start"),
            (end - start).alias("count"),
        )
    )


def compare(clipped: DataFrame, on_source: DataFrame, on_target: DataFrame, limits: DataFrame) -> DataFrame:
    """Each mapped record of the stretches, and each source record that is in no run, with its `outcome`.

    Args:
        clipped: See `clipped_runs`.
        on_source: The source records of the stretches, columns `digests.DIGESTS`.
        on_target: The target records, same columns; more of them than needed do no harm.
        limits: The watermarks of both sides, columns `comparison.LIMITS`.
    """
    step = F.explode(F.sequence(F.lit(0).cast("long"), F.col("count") - 1)).alias("step")
    pairs = clipped.select("*", step).select(
        "topic",
        "partition",
        (F.col("source_start") + F.col("step")).alias("source_offset"),
        "target_topic",
        "target_topic_id",
        "target_partition",
        (F.col("target_start") + F.col("step")).alias("target_offset"),
    )
    joined = (
        pairs.join(_named(on_source, "source", "original"), ["topic", "partition", "source_offset"], "full")
        .join(_named(on_target, "target", "copy"), ["target_topic", "target_partition", "target_offset"], "left")
        .join(_limits_of(limits, "source"), ["topic", "partition"], "left")
        .join(_limits_of(limits, "target"), ["target_topic", "target_topic_id", "target_partition"], "left")
    )
    at = F.col("target_offset")
    original, copy = F.col("original"), F.col("copy")
    source_gone = F.col("source_compacted") | (F.col("source_offset") < F.col("source_low"))
    target_gone = F.col("target_compacted") | (at < F.col("target_low"))
    return joined.withColumn(
        "outcome",
        F.when(at.isNull(), NOT_COPIED)
        .when(F.col("target_high").isNull(), GONE)  # the target topic was deleted, or is another one now
        .when(at >= F.col("target_high"), BEYOND)
        .when(original == copy, EQUAL)
        .when(original.isNotNull() & copy.isNotNull(), DIFFERENT)
        .when(copy.isNull() & ~target_gone & (at >= F.col("target_stable")), HELD)
        .when(copy.isNull() & ~target_gone, NO_TARGET)
        .when(original.isNull() & ~source_gone, NO_SOURCE)
        .otherwise(GONE),
    )


def _outcomes(spark: SparkSession, pipeline: Pipeline, index: MappingIndex, plan: Comparison) -> DataFrame:
    headers = pipeline.features.header_replication
    clipped = clipped_runs(spark, index.runs(spark), plan)
    # Near ones together: many short runs would be many rows here, and many seeks.
    near = F.floor(F.col("target_start") / _NEAR)
    first, last = F.min("target_start").alias("start"), F.max(F.col("target_start") + F.col("count")).alias("end")
    wanted = [
        (TopicPartition(row["target_topic"], row["target_partition"]), row["start"], row["end"])
        for row in clipped.groupBy("target_topic", "target_partition", near).agg(first, last).collect()
    ]
    source_properties = {"isolation.level": "read_committed", **pipeline.client_properties("source", "consumer")}
    target_properties = {**pipeline.client_properties("target", "consumer"), "isolation.level": "read_committed"}
    sampled = [(TopicPartition(s.topic, s.partition), s.start, s.end) for s in plan.stretches]
    in_source = plan.source.readable(sampled, gap=0)
    on_source = digests(spark, source_properties, in_source, headers, plan.source.timestamps).cache()
    on_target = digests(
        spark, target_properties, plan.target.readable(wanted, gap=_NEAR), headers, plan.target.timestamps
    ).cache()
    # Both are read before the watermarks are asked for: what retention removes meanwhile must count as gone.
    on_source.count()
    on_target.count()
    limits = spark.createDataFrame([*plan.source.limits(), *plan.target.limits()], LIMITS)
    return _without_skipped(spark, compare(clipped, on_source, on_target, limits), plan)


def _without_skipped(spark: SparkSession, outcome: DataFrame, plan: Comparison) -> DataFrame:
    """What was skipped by hand is on the source alone, and no fault."""
    if not plan.skipped:
        return outcome
    ranges = spark.createDataFrame(plan.skipped, "of_topic string, of_partition int, first long, after long")
    within = (
        (F.col("topic") == F.col("of_topic"))
        & (F.col("partition") == F.col("of_partition"))
        & (F.col("source_offset") >= F.col("first"))
        & (F.col("source_offset") < F.col("after"))
    )
    skipped = (F.col("outcome") == NOT_COPIED) & F.col("first").isNotNull()
    told = F.when(skipped, SKIPPED).otherwise(F.col("outcome"))
    return outcome.join(F.broadcast(ranges), within, "left").withColumn("outcome", told)


def _named(records: DataFrame, side: str, digest: str) -> DataFrame:
    prefix = "" if side == "source" else "target_"
    return records.select(
        F.col("topic").alias(f"{prefix}topic"),
        F.col("partition").alias(f"{prefix}partition"),
        F.col("offset").alias(f"{side}_offset"),
        F.col("digest").alias(digest),
    )


def _limits_of(limits: DataFrame, side: str) -> DataFrame:
    prefix = "" if side == "source" else "target_"
    named = [F.col(name).alias(f"{prefix}{name}") for name in ("topic", "partition")]
    if side == "target":
        named.append(F.col("topic_id").alias("target_topic_id"))
    bounds = [F.col(name).alias(f"{side}_{name}") for name in ("low", "stable", "high", "compacted")]
    return F.broadcast(limits.where(F.col("side") == side).select(*named, *bounds))


def _offenders(outcome: DataFrame) -> list[Offender]:
    columns = ("topic", "partition", "source_offset", "target_topic", "target_partition", "target_offset")
    first = outcome.where(~F.col("outcome").isin(*_NO_FAULT)).orderBy("topic", "partition", "source_offset")
    return [
        Offender(
            f"{row['topic']}-{row['partition']}@{row['source_offset']} {row['outcome']}", *(row[c] for c in columns)
        )
        for row in first.limit(SHOWN).collect()
    ]
