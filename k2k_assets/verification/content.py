"""Check: sampled stretches hold the same records, in the same order, on both clusters.

Every source record of a stretch must have its copy where the mapping says, with the same content, and every mapped
offset must hold a record. A record in a hole between two runs was not copied: the hole is not proven.

```
  source     100 101 102  .   .  105 106      a record at 103 or 104: missing on the target
              |   |   |           |   |       the records are compared pair by pair
  target     900 901 902  |      904 905      no record at 901, or another one: missing, or swapped
                                              a record at 903 that no source record is mapped to: doubled, or foreign
```

What retention or compaction removed on one side is *not comparable*: counted, never a failure. Nor is what was skipped
by hand (`k2k-tool set`): it is counted, and shown. A copy is judged by the settings under which it was made; where
nobody noted them, what other settings explain is not comparable either.

What is looked at is bounded in records and in seconds; what was left out this time is shown, and drawn anew next time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.mapping.index import MappingIndex
from k2k_assets.pipeline import Pipeline
from k2k_assets.verification.comparison import LIMITS, Comparison, plan_comparison
from k2k_assets.verification.digests import digests
from k2k_assets.verification.pieces import ComparedPiece
from k2k_assets.verification.unmapped import Span, to_read, unmapped
from k2k_assets.verification.verdict import SHOWN, Offender, Verdict, verdict

EQUAL, GONE, HELD, SKIPPED = "equal", "gone", "held", "skipped by hand"
OTHER = "copied under settings that were not noted"
_NO_FAULT = (EQUAL, GONE, HELD, SKIPPED, OTHER)
DIFFERENT = "differs in content from its copy"
NOT_COPIED = "is on the source, but was not copied"
NO_SOURCE = "is mapped, but there is no such record on the source"
NO_TARGET = "is mapped, but there is no such record on the target"
BEYOND = "is mapped beyond the target's high watermark"
UNMAPPED = "is on the target between two copies, and no source record is mapped to it: doubled, or of somebody else"
_NEAR = 1000
SECONDS = 20.0
"""After so long no further part of the sample is begun."""
_PIECES = (
    "topic string, partition int, start long, end long, isolation string, headers boolean, timestamps boolean, "
    "noted boolean, alone boolean"
)


@dataclass(slots=True)
class _Tally:
    """What was found so far.

    Attributes:
        counted: Records, by outcome.
        pieces: Pieces that were looked at.
        partitions: Source partitions that were.
        uncertain: Unmapped records that may be there.
        offenders: The first rows that offend.
    """

    counted: Counter[str] = field(default_factory=Counter)
    pieces: int = 0
    partitions: set[TopicPartition] = field(default_factory=set)
    uncertain: int = 0
    offenders: list[Offender] = field(default_factory=list)

    @property
    def faults(self) -> int:
        return sum(count for outcome, count in self.counted.items() if outcome not in _NO_FAULT)


def check_content(
    spark: SparkSession, pipeline: Pipeline, index: MappingIndex, source: Cluster, target: Cluster
) -> Verdict:
    """Compares sampled stretches of topics that still exist on both sides.

    Raises:
        ClusterUnreachable: A cluster does not answer.
    """
    started = time.monotonic()
    plan = plan_comparison(pipeline, index, source, target)
    tally = _Tally()
    for some in plan.rounds():
        if tally.pieces and time.monotonic() - started > SECONDS:
            break
        _compare(spark, pipeline, index, plan, some, tally)
    return _verdict(plan, tally, bool(index.manifest.mapped))


def _verdict(plan: Comparison, tally: _Tally, mapped: bool) -> Verdict:
    counted = tally.counted
    equal, gone = counted[EQUAL], counted[GONE] + counted[HELD] + counted[OTHER]
    counts = {
        "compared": equal + counted[DIFFERENT],
        "equal": equal,
        "not_comparable": gone + plan.unknown,
        "skipped_by_hand": counted[SKIPPED],
        "stretches": tally.pieces,
        "partitions": len(tally.partitions),
        "not_looked_at": plan.partitions - len(tally.partitions),
        "unmapped_on_target": counted[UNMAPPED] + tally.uncertain,
        "former_topics": plan.former_topics,
        "without_leader": len(plan.offline_partitions),
        "offending": tally.faults,
    }
    good = f"{equal} records are the same on both clusters" if equal or mapped else "nothing is mapped yet"
    return verdict(tally.offenders, tally.faults, good + _besides(plan, counts), counts, _doubt(plan, counts, mapped))


def _doubt(plan: Comparison, counts: dict[str, int], mapped: bool) -> str | None:
    if counts["equal"] or not mapped:
        return None
    why = "nothing of what is mapped can be read on the source"
    if plan.pieces:
        why = f"{counts['not_comparable']} records are gone on one side"
    return f"nothing could be compared: {why}" + _besides(plan, counts)


def _besides(plan: Comparison, counts: dict[str, int]) -> str:
    """What else is to be known, in words."""
    words = []
    if plan.skipped:
        topic, partition, start, end = plan.skipped[0]
        more = f" and {len(plan.skipped) - 1} more ranges" if len(plan.skipped) > 1 else ""
        words.append(f"skipped by hand: {topic}-{partition} from {start} to {end - 1}{more}")
    if counts["unmapped_on_target"] and not counts["offending"]:
        words.append(
            f"{counts['unmapped_on_target']} records lie between copies on the target without being mapped: second "
            "copies (at least once), or of other writers"
        )
    if plan.unknown:
        words.append(f"{plan.unknown} were copied under settings that are not known any more, and not compared")
    if plan.offline_partitions:
        first = next(iter(plan.offline_partitions.values()))
        words.append(f"{len(plan.offline_partitions)} partitions have no leader and were not looked at: {first}")
    if counts["partitions"] and (left := counts["not_looked_at"] - len(plan.offline_partitions)) > 0:
        words.append(f"{left} of {plan.partitions} partitions were not looked at this time")
    return "".join(f"; {each}" for each in words)


def clipped_runs(spark: SparkSession, runs: DataFrame, plan: Comparison, some: Sequence[ComparedPiece]) -> DataFrame:
    """The parts of runs that lie in pieces: columns of the runs, source_start to count clipped, and of the pieces.

    Args:
        spark: Makes the frame of pieces.
        runs: Columns `mapping.index.schemas.RUNS`.
        plan: The source topic ids that count.
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
        )
    )


def pairs_of(clipped: DataFrame) -> DataFrame:
    """The source and the target offset of each record that is mapped, with what counts of it.

    Args:
        clipped: See `clipped_runs`.
    """
    step = F.explode(F.sequence(F.lit(0).cast("long"), F.col("count") - 1)).alias("step")
    return clipped.select("*", step).select(
        "topic",
        "partition",
        (F.col("source_start") + F.col("step")).alias("source_offset"),
        "target_topic",
        "target_topic_id",
        "target_partition",
        (F.col("target_start") + F.col("step")).alias("target_offset"),
        "headers",
        "timestamps",
        "noted",
    )


def compare(pairs: DataFrame, on_source: DataFrame, on_target: DataFrame, limits: DataFrame) -> DataFrame:
    """Each mapped record of the pieces, and each source record that is in no run, with its `outcome`.

    Args:
        pairs: See `pairs_of`.
        on_source: The source records of the pieces, columns `digests.DIGESTS`.
        on_target: The target records, same columns; more of them than needed do no harm.
        limits: The watermarks of both sides, columns `comparison.LIMITS`.
    """
    joined = (
        pairs.join(_named(on_source, "source", "original"), ["topic", "partition", "source_offset"], "full")
        .join(_named(on_target, "target", "copy"), ["target_topic", "target_partition", "target_offset"], "left")
        .join(_limits_of(limits, "source"), ["topic", "partition"], "left")
        .join(_limits_of(limits, "target"), ["target_topic", "target_topic_id", "target_partition"], "left")
    )
    at = F.col("target_offset")
    original, copy = F.col("original"), F.col("copy")
    same_headers = F.col("original.headers") == F.col("copy.headers")
    same_time = F.coalesce(F.col("original.timestamp") == F.col("copy.timestamp"), F.lit(True))
    same = F.col("original.content") == F.col("copy.content")
    as_settings_say = (~F.col("headers") | same_headers) & (~F.col("timestamps") | same_time)
    source_gone = F.col("source_compacted") | (F.col("source_offset") < F.col("source_low"))
    target_gone = F.col("target_compacted") | (at < F.col("target_low"))
    return joined.withColumn(
        "outcome",
        F.when(at.isNull(), NOT_COPIED)
        .when(F.col("target_high").isNull(), GONE)  # the target topic was deleted, or is another one now
        .when(at >= F.col("target_high"), BEYOND)
        .when(same & as_settings_say, EQUAL)
        .when(same & ~F.col("noted"), OTHER)
        .when(original.isNotNull() & copy.isNotNull(), DIFFERENT)
        .when(copy.isNull() & ~target_gone & (at >= F.col("target_stable")), HELD)
        .when(copy.isNull() & ~target_gone, NO_TARGET)
        .when(original.isNull() & ~source_gone & ~F.col("noted"), OTHER)  # an aborted one that was read uncommitted
        .when(original.isNull() & ~source_gone, NO_SOURCE)
        .otherwise(GONE),
    )


def _compare(
    spark: SparkSession,
    pipeline: Pipeline,
    index: MappingIndex,
    plan: Comparison,
    some: Sequence[ComparedPiece],
    tally: _Tally,
) -> None:
    """Compares some pieces, and adds what is found."""
    topics = {piece.topic for piece in some}
    runs = index.runs(spark).where(F.col("topic").isin(*topics))
    clipped = clipped_runs(spark, runs, plan, some).cache()
    ids = {name: topic.topic_id for name, topic in plan.target.topics.items()}
    every = [Span(*row) for row in _parts(clipped).collect()]
    parts = [part for part in every if ids.get(part.target_topic) == part.target_topic_id]
    spans = to_read(parts)
    wanted = [(span.target, span.start, span.end) for span in spans]
    on_source = _read_source(spark, pipeline, plan, some).cache()
    properties = {**pipeline.client_properties("target", "consumer"), "isolation.level": "read_committed"}
    on_target = digests(spark, properties, plan.target.readable(wanted, gap=_NEAR)).cache()
    # Both are read before the watermarks are asked for: what retention removes meanwhile must count as gone.
    on_source.count()
    on_target.count()
    limits = [*plan.source.limits(topics), *plan.target.limits({span.target_topic for span in spans})]
    pairs = pairs_of(clipped)
    compared = compare(pairs, on_source, on_target, spark.createDataFrame(limits, LIMITS))
    outcome = _without_skipped(spark, compared, plan).cache()
    try:
        counted = {row["outcome"]: row["count"] for row in outcome.groupBy("outcome").count().collect()}
        tally.counted.update(counted)
        if any(name not in _NO_FAULT for name in counted):
            tally.offenders += _offenders(outcome)
        _add_unmapped(tally, unmapped(spans, pairs, on_target, index.runs(spark)))
    finally:
        for frame in (outcome, on_target, on_source, clipped):
            frame.unpersist()
    tally.pieces += len(some)
    tally.partitions.update(TopicPartition(piece.topic, piece.partition) for piece in some)


def _add_unmapped(tally: _Tally, found: Sequence[tuple[Span, int]]) -> None:
    for span, offset in found:
        if not span.alone:
            tally.uncertain += 1
            continue
        tally.counted[UNMAPPED] += 1
        if len(tally.offenders) < SHOWN:
            at = f"{span.target_topic}-{span.target_partition}@{offset}"
            place = span.topic, span.partition, None, span.target_topic, span.target_partition, offset
            tally.offenders.append(Offender(f"{at} {UNMAPPED}", *place))


def _read_source(spark: SparkSession, pipeline: Pipeline, plan: Comparison, some: Sequence[ComparedPiece]) -> DataFrame:
    """The source records of pieces, columns `digests.DIGESTS`: under the isolation level of each."""
    properties = pipeline.client_properties("source", "consumer")
    frames = []
    for level in sorted({piece.isolation for piece in some}):
        wanted = [
            (TopicPartition(piece.topic, piece.partition), piece.start, piece.end)
            for piece in some
            if piece.isolation == level
        ]
        frames.append(digests(spark, {**properties, "isolation.level": level}, plan.source.readable(wanted, 0, level)))
    return reduce(DataFrame.unionByName, frames)


def _parts(clipped: DataFrame) -> DataFrame:
    """What the runs of a piece that lie close together span in each target partition: columns of `Span`."""
    of_piece = ("topic", "partition", "piece", "target_topic", "target_topic_id", "target_partition", "alone")
    near = F.floor(F.col("target_start") / _NEAR).alias("near")
    first, last = F.min("target_start").alias("start"), F.max(F.col("target_start") + F.col("count")).alias("end")
    return clipped.groupBy(*of_piece, near).agg(first, last).select(*Span._fields)


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


def _named(records: DataFrame, side: str, name: str) -> DataFrame:
    prefix = "" if side == "source" else "target_"
    return records.select(
        F.col("topic").alias(f"{prefix}topic"),
        F.col("partition").alias(f"{prefix}partition"),
        F.col("offset").alias(f"{side}_offset"),
        F.struct("content", "headers", "timestamp").alias(name),
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
