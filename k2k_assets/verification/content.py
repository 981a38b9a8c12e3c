"""Check: copies are the same on both clusters, record by record, in the same order.

The check looks at the records copied since the last evaluation, and at stretches of the rest. Every source record of a
stretch must have its copy at the mapped offset, with the same content, and every mapped offset must hold a record. A
source record in a gap between two runs was not copied, so the gap is a fault.

```
  source     100 101 102  .   .  105 106      a record at 103 or 104: missing on the target
              |   |   |           |   |       the records are compared pair by pair
  target     900 901 902  |      904 905      no record at 901, or another one: missing, or swapped
                                              a record at 903 that no source record is mapped to: doubled, or foreign
```

Records that retention or compaction removed on one side are *not comparable*: they are counted, and are no failure. Nor
are records that were skipped by hand (`k2k-tool set`): these are counted, and shown. A copy is judged by the settings
under which it was made; if nobody noted them, differences that other settings explain are not comparable either.

A run is bounded in records and in seconds (`sampling.py`). It notes beside the index how far each partition is verified
(`verified.py`), so that the next evaluation goes on from there. A fault counts until its range is verified good.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.index import MappingIndex
from k2k_assets.pipeline import Pipeline
from k2k_assets.verification.comparison import LIMITS, Comparison, plan_comparison, rounds
from k2k_assets.verification.content_tally import (
    BEYOND,
    DIFFERENT,
    EQUAL,
    GONE,
    HIDDEN,
    NO_FAULT,
    NO_SOURCE,
    NO_TARGET,
    NOT_COPIED,
    OTHER,
    SKIPPED,
    OutcomeCount,
    Tally,
)
from k2k_assets.verification.content_verdict import content_verdict
from k2k_assets.verification.digests import digests
from k2k_assets.verification.expected_headers import header_words
from k2k_assets.verification.payloads import payloads_of, words_of
from k2k_assets.verification.pieces import ComparedPiece
from k2k_assets.verification.sampling import next_budget, size
from k2k_assets.verification.unmapped import Span, to_read, unmapped
from k2k_assets.verification.verdict import SHOWN, Offender, Verdict
from k2k_assets.verification.verified import MappedRecord, Verified, updated
from k2k_assets.verification.verified_notes import Ground, Known, VerifiedNotes

_NEAR = 1000
SECONDS = 20.0
"""After so many seconds no further round is begun."""
_FIRST_SECONDS = 0.75
"""Share of `SECONDS` after which the second look begins, even if fresh pieces are left."""
_PIECES = (
    "topic string, partition int, start long, end long, isolation string, headers boolean, timestamps boolean, "
    "noted boolean, alone boolean, schemas string, added string"
)


def check_content(
    spark: SparkSession, pipeline: Pipeline, index: MappingIndex, source: Cluster, target: Cluster
) -> Verdict:
    """Compares stretches of topics that still exist on both sides, and notes the result for the next evaluation.

    Raises:
        ClusterUnreachable: A cluster does not answer.
    """
    started = time.monotonic()
    notes = VerifiedNotes(index.root, Ground.of(pipeline, index, source.cluster_id()))
    known = notes.read()
    seed = index.manifest.number + known.turn
    plan = plan_comparison(pipeline, index, source, target, known.verified, known.budget, seed)
    tally = Tally()
    for pieces, seconds in ((plan.first, _FIRST_SECONDS * SECONDS), (plan.second, SECONDS)):
        for some in rounds(pieces):
            if tally.pieces and time.monotonic() - started > seconds:
                break
            _compare(spark, pipeline, index, plan, some, tally)
    tally.note_left(plan.first, plan.second)
    verified, trouble = _note(notes, known, plan, tally)
    return content_verdict(plan, tally, verified, trouble, bool(index.manifest.mapped))


def _note(
    notes: VerifiedNotes, known: Known, plan: Comparison, tally: Tally
) -> tuple[dict[TopicPartition, Verified], str]:
    """Writes the notes on today's partitions; returns them, and the error if they could not be written."""
    ran_out = tally.pieces < len(plan.first) + len(plan.second)
    budget = next_budget(known.budget, sum(size(each.ranges) for each in tally.compared.values()), ran_out)
    try:
        with notes.locked():
            verified = _verified(plan, tally, notes.read().verified, known.turn)
            notes.write(known.turn, budget, {plan.today[tp]: each for tp, each in verified.items()})
    except OSError as error:
        why = f"how far this is verified cannot be noted in {notes.path}: {error.strerror or error}"
        return _verified(plan, tally, {}, known.turn), why
    return verified, ""


def _verified(
    plan: Comparison, tally: Tally, newest: Mapping[SourcePartition, Verified], turn: int
) -> dict[TopicPartition, Verified]:
    known = {tp: newest.get(at, Verified()) for tp, at in plan.today.items()}
    for tp, compared in tally.compared.items():
        planned = plan.planned[tp]
        compared.is_hidden |= planned.is_hidden
        known[tp] = updated(planned.known, known[tp], planned.look, planned.readable, compared, turn)
    return known


def clipped_runs(spark: SparkSession, runs: DataFrame, plan: Comparison, some: Sequence[ComparedPiece]) -> DataFrame:
    """Clips runs to pieces: the columns of the runs, with `source_start` to `count` clipped, and of the pieces.

    Args:
        spark: The session.
        runs: Runs, columns `mapping.index.schemas.RUNS`.
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
        )
    )


def pairs_of(clipped: DataFrame) -> DataFrame:
    """One row for each mapped record: its source and target offset, and the settings of its copy.

    Args:
        clipped: Runs from `clipped_runs`.
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
        "schemas",
        "added",
    )


def compare(pairs: DataFrame, on_source: DataFrame, on_target: DataFrame, limits: DataFrame) -> DataFrame:
    """One row for each mapped record of the pieces, and for each source record in no run, with its `outcome`.

    Args:
        pairs: Mapped records from `pairs_of`.
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
    at = F.col("target_offset")
    original, copy = F.col("original"), F.col("copy")
    must_be = F.when(F.col("added") == "", F.col("original.headers"))
    same_headers = must_be.otherwise(F.col("original.expected")[F.col("added")]) == F.col("copy.headers")
    same_time = F.coalesce(F.col("original.timestamp") == F.col("copy.timestamp"), F.lit(True))
    same_bytes = F.col("original.content") == F.col("copy.content")
    same_by_schema = F.col("original.by_schema")[F.col("schemas")] == F.col("copy.by_schema")[F.col("schemas")]
    same = F.when(F.col("schemas") == "", same_bytes).otherwise(same_by_schema)
    as_settings_say = (~F.col("headers") | same_headers) & (~F.col("timestamps") | same_time)
    source_gone = F.col("source_compacted") | (F.col("source_offset") < F.col("source_low"))
    target_gone = F.col("target_compacted") | (at < F.col("target_low"))
    return joined.withColumn(
        "outcome",
        F.when(at.isNull(), NOT_COPIED)
        .when(F.col("target_high").isNull(), GONE)  # the target topic was deleted or created anew
        .when(at >= F.col("target_high"), BEYOND)
        .when(same & as_settings_say, EQUAL)
        .when(same & ~F.col("noted"), OTHER)
        .when(original.isNotNull() & copy.isNotNull(), DIFFERENT)
        .when(copy.isNull() & ~target_gone & (at >= F.col("target_stable")), HIDDEN)
        .when(copy.isNull() & ~target_gone, NO_TARGET)
        .when(original.isNull() & ~source_gone & ~F.col("noted"), OTHER)  # an aborted record, read uncommitted then
        .when(original.isNull() & ~source_gone, NO_SOURCE)
        .otherwise(GONE),
    )


def _compare(
    spark: SparkSession,
    pipeline: Pipeline,
    index: MappingIndex,
    plan: Comparison,
    some: Sequence[ComparedPiece],
    tally: Tally,
) -> None:
    """Compares some pieces, and adds the result to the tally."""
    tally.add_pieces(some)
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
    facets, payloads = words_of(piece.schemas for piece in some), payloads_of(pipeline, "target")
    on_target = digests(spark, properties, plan.target.readable(wanted, gap=_NEAR), payloads, facets).cache()
    # Both are read before the watermarks are asked for: what retention removes meanwhile must count as gone.
    on_source.count()
    on_target.count()
    limits = [*plan.source.limits(topics), *plan.target.limits({span.target_topic for span in spans})]
    pairs = pairs_of(clipped)
    compared = compare(pairs, on_source, on_target, spark.createDataFrame(limits, LIMITS))
    outcome = _without_skipped(spark, compared, plan).cache()
    try:
        counted = _counted(outcome)
        tally.add_outcomes(counted)
        if any(each.outcome not in NO_FAULT for each in counted):
            tally.offenders += _offenders(outcome)
        tally.add_unmapped(unmapped(spans, pairs, on_target, index.runs(spark)), some)
        _add_last_mapped(spark, clipped, plan, tally, some)
    finally:
        for frame in (outcome, on_target, on_source, clipped):
            frame.unpersist()


def _counted(outcome: DataFrame) -> list[OutcomeCount]:
    place = F.col("source_offset")
    rows = outcome.groupBy("topic", "partition", "outcome").agg(F.count("*"), F.min(place), F.max(place)).collect()
    return [OutcomeCount(*row) for row in rows]


def _add_last_mapped(
    spark: SparkSession, clipped: DataFrame, plan: Comparison, tally: Tally, some: Sequence[ComparedPiece]
) -> None:
    """Notes the last mapped record below the source offsets of `asked_for`."""
    partitions = {TopicPartition(piece.topic, piece.partition) for piece in some}
    wanted = [(*tp, offset) for tp in partitions for offset in plan.planned[tp].asked_for()]
    asked = spark.createDataFrame(wanted, "topic string, partition int, before long")
    last = F.least(F.col("source_start") + F.col("count"), "before") - 1
    at = F.struct(
        last.alias("source_offset"),
        "target_topic_id",
        "target_partition",
        (F.col("target_start") + last - F.col("source_start")).alias("target_offset"),
    )
    below = clipped.join(F.broadcast(asked), ["topic", "partition"]).where(F.col("source_start") < F.col("before"))
    for row in below.groupBy("topic", "partition", "before").agg(F.max(at).alias("last")).collect():
        known = tally.compared[TopicPartition(row["topic"], row["partition"])].last_before
        found = MappedRecord(**row["last"].asDict())
        # Another round may have found a later one.
        if row["before"] not in known or known[row["before"]].source_offset < found.source_offset:
            known[row["before"]] = found


def _read_source(spark: SparkSession, pipeline: Pipeline, plan: Comparison, some: Sequence[ComparedPiece]) -> DataFrame:
    """The source records of pieces, columns `digests.DIGESTS`: under the isolation level of each."""
    properties, payloads = pipeline.client_properties("source", "consumer"), payloads_of(pipeline, "source")
    facets, expected = words_of(piece.schemas for piece in some), header_words(piece.added for piece in some)
    frames = []
    for level in sorted({piece.isolation for piece in some}):
        wanted = [
            (TopicPartition(piece.topic, piece.partition), piece.start, piece.end)
            for piece in some
            if piece.isolation == level
        ]
        ranges = plan.source.readable(wanted, 0, level)
        frames.append(digests(spark, {**properties, "isolation.level": level}, ranges, payloads, facets, expected))
    return reduce(DataFrame.unionByName, frames)


def _parts(clipped: DataFrame) -> DataFrame:
    """The target offsets that neighbouring runs of a piece span in each target partition: columns of `Span`."""
    of_piece = ("topic", "partition", "piece", "target_topic", "target_topic_id", "target_partition", "alone")
    near = F.floor(F.col("target_start") / _NEAR).alias("near")
    first, last = F.min("target_start").alias("start"), F.max(F.col("target_start") + F.col("count")).alias("end")
    return clipped.groupBy(*of_piece, near).agg(first, last).select(*Span._fields)


def _without_skipped(spark: SparkSession, outcome: DataFrame, plan: Comparison) -> DataFrame:
    """Marks records that were skipped by hand: they are on the source only, which is no fault."""
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
        F.struct("content", "headers", "timestamp", "by_schema", "expected").alias(name),
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
    first = outcome.where(~F.col("outcome").isin(*NO_FAULT)).orderBy("topic", "partition", "source_offset")
    return [
        Offender(
            f"{row['topic']}-{row['partition']}@{row['source_offset']} {row['outcome']}", *(row[c] for c in columns)
        )
        for row in first.limit(SHOWN).collect()
    ]
