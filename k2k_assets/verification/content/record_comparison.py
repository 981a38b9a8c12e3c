"""Compares records pair by pair on Spark: what became of each source record, and of each record that is mapped.

The rows of a comparison are the mapped records, those that were left out on purpose, and source records that are
neither.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from k2k_assets.mapping.algebra.fold import nowhere
from k2k_assets.verification.content.comparison import Comparison
from k2k_assets.verification.content.pieces import ComparedPiece
from k2k_assets.verification.content.tally import (
    BEYOND,
    DIFFERENT,
    DROPPED,
    DROPPED_WRONGLY,
    EQUAL,
    GONE,
    HIDDEN,
    NO_SCHEMA,
    NO_SCHEMA_ON_TARGET,
    NO_SOURCE,
    NO_TARGET,
    NOT_COPIED,
    NOT_DROPPED,
    OTHER,
    OTHER_RULES,
)

_PIECES = (
    "topic string, partition int, start long, end long, isolation string, headers boolean, timestamps boolean, "
    "noted boolean, alone boolean, schemas string, added string, drops string, transform string"
)
_TARGET = ("target_topic", "target_topic_id", "target_partition")


def clipped_runs(spark: SparkSession, runs: DataFrame, plan: Comparison, some: Sequence[ComparedPiece]) -> DataFrame:
    """Clips runs to pieces: the columns of the runs, with `source_start` to `count` clipped, and of the pieces.

    Args:
        spark: The session.
        runs: Runs, columns `mapping.index.schemas.RUNS`, also those into `fold.nowhere`.
        plan: Names the source topic ids that count.
        some: The pieces.
    """
    ids = spark.createDataFrame(plan.source_ids(), "topic string, source_topic_id string")
    pieces = spark.createDataFrame(list(some), _PIECES).join(ids, "topic")
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
            F.col("start").alias("piece"),
            "headers",
            "timestamps",
            "noted",
            "alone",
            "schemas",
            "added",
            "drops",
        )
    )


def is_mapped() -> Column:
    """Whether a clipped run is one of copies, and not of records that were left out."""
    return F.col("target_topic") != nowhere("").topic


def pairs_of(clipped: DataFrame) -> DataFrame:
    """One row for each mapped offset: source and target offset, and the settings of the copy.

    Where records were left out, a row has no target, but the `rule` that did it.

    Args:
        clipped: Runs from `clipped_runs`.
    """
    step = F.explode(F.sequence(F.lit(0).cast("long"), F.col("count") - 1)).alias("step")
    return clipped.select("*", step).select(
        "topic",
        "partition",
        (F.col("source_start") + F.col("step")).alias("source_offset"),
        *(F.when(is_mapped(), F.col(name)).alias(name) for name in _TARGET),
        F.when(is_mapped(), F.col("target_start") + F.col("step")).alias("target_offset"),
        F.when(~is_mapped(), F.col("target_topic_id")).alias("rule"),
        "headers",
        "timestamps",
        "noted",
        "schemas",
        "added",
        "drops",
    )


def compare(pairs: DataFrame, on_source: DataFrame, on_target: DataFrame, limits: DataFrame) -> DataFrame:
    """One row for each mapped record of the pieces, and for each other source record, with its `outcome`.

    Args:
        pairs: Mapped offsets from `pairs_of`.
        on_source: The source records of the pieces, columns `digests.DIGESTS`.
        on_target: The target records, same columns; further records do no harm.
        limits: The watermarks of both sides, columns `comparison.LIMITS`.
    """
    joined = (
        pairs.join(_named(on_source, "source", "original"), ["topic", "partition", "source_offset"], "full")
        .join(_named(on_target, "target", "copy"), ["target_topic", "target_partition", "target_offset"], "left")
        .join(_limits_of(limits, "source"), ["topic", "partition"], "left")
        .join(_limits_of(limits, "target"), ["target_topic", "target_topic_id", "target_partition"], "left")
    )
    at, rule, must_drop = F.col("target_offset"), F.col("rule"), F.col("original.drops")[F.col("drops")]
    original, copy = F.col("original"), F.col("copy")
    must_be = F.when(F.col("added") == "", F.col("original.headers"))
    same_headers = must_be.otherwise(F.col("original.expected")[F.col("added")]) == F.col("copy.headers")
    same_time = F.coalesce(F.col("original.timestamp") == F.col("copy.timestamp"), F.lit(True))
    same_bytes = F.col("original.content") == F.col("copy.content")
    ours, theirs = (F.col(f"{side}.by_schema")[F.col("schemas")] for side in ("original", "copy"))
    same_payload, same_key, same_value = (
        ours[name] == theirs[name] for name in ("payload", "key_schema", "value_schema")
    )
    # Null where a schema is not known any more, and all else is the same.
    same_by_schema = same_payload & same_key & same_value
    target_lacks, loses_rules = (
        F.coalesce(of_facet(ours, theirs, "key") | of_facet(ours, theirs, "value"), F.lit(False))
        for of_facet in (_target_lacks, _loses_rules)
    )
    same = F.when(F.col("schemas") == "", same_bytes).otherwise(same_by_schema)
    as_settings_say = (~F.col("headers") | same_headers) & (~F.col("timestamps") | same_time)
    source_gone = F.col("source_compacted") | (F.col("source_offset") < F.col("source_low"))
    target_gone = F.col("target_compacted") | (at < F.col("target_low"))
    no_leader = {
        side: F.col(f"{side}_compacted").isNotNull() & F.col(f"{side}_low").isNull() for side in ("source", "target")
    }
    is_out_of_reach = (original.isNull() & no_leader["source"]) | (copy.isNull() & no_leader["target"])
    both = original.isNotNull() & copy.isNotNull()
    # A range that was left out may hold offsets without any record.
    return joined.where(rule.isNull() | original.isNotNull()).withColumn(
        "outcome",
        F.when(must_drop == rule, DROPPED)
        .when(rule.isNotNull(), DROPPED_WRONGLY)
        .when(at.isNull(), NOT_COPIED)
        .when(F.col("target_compacted").isNull(), GONE)  # the target topic was deleted or created anew
        .when(at >= F.col("target_high"), BEYOND)
        .when(must_drop.isNotNull() & F.col("noted"), NOT_DROPPED)
        .when(same & as_settings_say & loses_rules, OTHER_RULES)
        .when(same & as_settings_say, EQUAL)
        .when(same & ~F.col("noted"), OTHER)
        .when(both & same.isNull() & (as_settings_say | ~F.col("noted")) & target_lacks, NO_SCHEMA_ON_TARGET)
        .when(both & same.isNull() & (as_settings_say | ~F.col("noted")), NO_SCHEMA)
        .when(both, DIFFERENT)
        .when(is_out_of_reach, HIDDEN)
        .when(copy.isNull() & ~target_gone & (at >= F.col("target_stable")), HIDDEN)
        .when(copy.isNull() & ~target_gone, NO_TARGET)
        .when(original.isNull() & ~source_gone & ~F.col("noted"), OTHER)  # an aborted record, read uncommitted then
        .when(original.isNull() & ~source_gone, NO_SOURCE)
        .otherwise(GONE),
    )


def _target_lacks(original: Column, copy: Column, facet: str) -> Column:
    """Whether the source's registry has the schema, and the target's does not."""
    return original[f"{facet}_schema"].isNotNull() & copy[f"{facet}_schema"].isNull()


def _loses_rules(original: Column, copy: Column, facet: str) -> Column:
    """Whether the target's registry has the schema without all of its rules, or of what they go by."""
    lost = F.array_except(original[f"{facet}_contract"], copy[f"{facet}_contract"])
    return copy[f"{facet}_schema"].isNotNull() & (F.size(lost) > 0)


def _named(records: DataFrame, side: str, name: str) -> DataFrame:
    prefix = "" if side == "source" else "target_"
    return records.select(
        F.col("topic").alias(f"{prefix}topic"),
        F.col("partition").alias(f"{prefix}partition"),
        F.col("offset").alias(f"{side}_offset"),
        F.struct("content", "headers", "timestamp", "by_schema", "expected", "drops").alias(name),
    )


def _limits_of(limits: DataFrame, side: str) -> DataFrame:
    prefix = "" if side == "source" else "target_"
    named = [F.col(name).alias(f"{prefix}{name}") for name in ("topic", "partition")]
    if side == "target":
        named.append(F.col("topic_id").alias("target_topic_id"))
    bounds = [F.col(name).alias(f"{side}_{name}") for name in ("low", "stable", "high", "compacted")]
    return F.broadcast(limits.where(F.col("side") == side).select(*named, *bounds))
