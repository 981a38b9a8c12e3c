"""Check: copies are the same on both clusters, record by record, in the same order.

The check looks at the records copied since the last evaluation, and at stretches of the rest. Every source record of a
stretch must have its copy at the mapped offset, with the same content, and every mapped offset must hold a record. A
source record in a gap between two runs was not copied, so the gap is a fault; unless the mappings say by which rule it
was left out, and that rule does leave it out.

```
  source     100 101 102  .   .  105 106      a record at 103 or 104: missing on the target
              |   |   |           |   |       the records are compared pair by pair
  target     900 901 902  |      904 905      no record at 901, or another one: missing, or swapped
                                              a record at 903 that no source record is mapped to: doubled, or foreign
```

Records that retention or compaction removed on one side are *not comparable*: they are counted, and are no failure.
Offsets that were skipped by hand (`k2k-tool set`) are shown, and not read. A copy is judged by the settings under which
it was made; if nobody noted them, differences that other settings explain are not comparable either.

What nobody was to change is first compared by whole batches (`by_batches/`), which is some ten times quicker: there all
is looked at, not samples. What is not proven to be equal there is compared record by record, as everything else is.

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
from k2k_assets.verification.content.by_batches.choosing import left_to_compare
from k2k_assets.verification.content.by_batches.evaluation import prove
from k2k_assets.verification.content.by_batches.stretches import Proven
from k2k_assets.verification.content.comparison import Comparison, rounds
from k2k_assets.verification.content.content_verdict import content_verdict
from k2k_assets.verification.content.digests import digests
from k2k_assets.verification.content.expected_changes import ChangeRules, by_id
from k2k_assets.verification.content.expected_drops import drop_words
from k2k_assets.verification.content.expected_headers import header_words
from k2k_assets.verification.content.payloads import payloads_of, words_of
from k2k_assets.verification.content.pieces import ComparedPiece
from k2k_assets.verification.content.record_comparison import clipped_runs, compare, is_mapped, pairs_of
from k2k_assets.verification.content.sampling import looks, next_budget
from k2k_assets.verification.content.sides import LIMITS
from k2k_assets.verification.content.survey import survey
from k2k_assets.verification.content.tally import NO_FAULT, OutcomeCount, Tally
from k2k_assets.verification.content.unmapped import Span, to_read, unmapped
from k2k_assets.verification.content.verified import MappedRecord, Verified, updated
from k2k_assets.verification.content.verified_notes import Conditions, Known, NotedMeanwhile, VerifiedNotes
from k2k_assets.verification.verdict import SHOWN, Offender, Verdict

_NEAR = 1000
SECONDS = 20.0
"""After so many seconds no further round is begun."""
_ATTEMPTS = 5
_PROOF_SECONDS = 0.4
"""Share of `SECONDS` for the comparison by batches; Spark's own time comes on top."""
_FIRST_SECONDS = 0.75
"""Share of `SECONDS` after which the second look begins, even if fresh pieces are left."""


def check_content(
    spark: SparkSession, pipeline: Pipeline, index: MappingIndex, source: Cluster, target: Cluster
) -> Verdict:
    """Compares stretches of topics that still exist on both sides, and notes the result for the next evaluation.

    Raises:
        ClusterUnreachable: A cluster does not answer.
    """
    started = time.monotonic()
    notes = VerifiedNotes(index.root, Conditions.of(pipeline, index, source.cluster_id()))
    known = notes.read()
    seed = index.manifest.number + known.turn
    found = survey(pipeline, index, source, target, known.verified, seed)
    unverified = found.unverified()
    look = looks(unverified, known.budget, seed)
    proven = prove(spark, pipeline, index, found, unverified, look, _PROOF_SECONDS * SECONDS)
    plan = found.plan(left_to_compare(unverified, look, found.seen(), proven, known.budget, seed))
    tally = Tally()
    if proven.pieces:
        _add_proven(spark, index, plan, proven, tally)
    for pieces, seconds in _looks(plan):
        for some in rounds(pieces):
            if tally.pieces and time.monotonic() - started > seconds:
                break
            _compare(spark, pipeline, index, plan, some, tally)
    tally.note_left(plan.first, plan.second)
    verified, trouble = _note(notes, known, plan, tally)
    return content_verdict(plan, tally, verified, trouble, bool(index.manifest.mapped), proven)


def _looks(plan: Comparison) -> list[tuple[list[ComparedPiece], float]]:
    """Pieces in turn, with the seconds after which no further round is begun.

    What fits into one round is one look: a round costs seconds of Spark, however few its records are.
    """
    everything = [*plan.first, *plan.second]
    if len(list(rounds(everything))) <= 1:
        return [(everything, SECONDS)]
    return [(plan.first, _FIRST_SECONDS * SECONDS), (plan.second, SECONDS)]


def _note(
    notes: VerifiedNotes, known: Known, plan: Comparison, tally: Tally
) -> tuple[dict[TopicPartition, Verified], str]:
    """Writes the notes on today's partitions; returns them, and the error if they could not be written."""
    ran_out = tally.pieces < len(plan.first) + len(plan.second)
    budget = next_budget(known.budget, tally.offsets, ran_out)
    for left in reversed(range(_ATTEMPTS)):
        try:
            with notes.locked():
                verified = _verified(plan, tally, notes.read().verified, known.turn)
                notes.write(known.turn, budget, {plan.today[tp]: each for tp, each in verified.items()})
            return verified, ""
        except OSError as error:
            if left and isinstance(error, NotedMeanwhile):
                continue
            why = f"how far this is verified cannot be noted in {notes.path}: {error.strerror or error}"
            break
    return _verified(plan, tally, {}, known.turn), why


def _verified(
    plan: Comparison, tally: Tally, newest: Mapping[SourcePartition, Verified], turn: int
) -> dict[TopicPartition, Verified]:
    known = {tp: newest.get(at, Verified()) for tp, at in plan.today.items()}
    for tp, compared in tally.compared.items():
        planned = plan.planned[tp]
        if planned.is_hidden:  # somewhere: which copies lie there is not known
            compared.hidden.extend(compared.ranges)
        known[tp] = updated(planned.known, known[tp], planned.look, planned.readable, compared, turn)
    return known


def _add_proven(spark: SparkSession, index: MappingIndex, plan: Comparison, proven: Proven, tally: Tally) -> None:
    """Adds what is proven by batches to the tally."""
    tally.add_proven(proven.pieces)
    topics = {piece.topic for piece in proven.pieces}
    clipped = clipped_runs(spark, index.runs(spark).where(F.col("topic").isin(*topics)), plan, proven.pieces).cache()
    try:
        # The record count comes from the mappings: each of them is proven to have a record on both sides.
        tally.add_equal(clipped.agg(F.coalesce(F.sum("count"), F.lit(0))).collect()[0][0])
        _add_last_mapped(spark, clipped, plan, tally, proven.pieces)
    finally:
        clipped.unpersist()


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
    runs, dropped = index.runs(spark), index.dropped(spark)
    every_run = runs if dropped is None else runs.unionByName(dropped)
    every = clipped_runs(spark, every_run.where(F.col("topic").isin(*topics)), plan, some).cache()
    clipped = every.where(is_mapped())
    ids = {name: topic.topic_id for name, topic in plan.target.topics.items()}
    spanned = [Span(*row) for row in _parts(clipped).collect()]
    parts = [part for part in spanned if ids.get(part.target_topic) == part.target_topic_id]
    spans = to_read(parts)
    wanted = [(span.target, span.start, span.end) for span in spans]
    on_source = _read_source(spark, pipeline, plan, some).cache()
    properties = {**pipeline.client_properties("target", "consumer"), "isolation.level": "read_committed"}
    facets, payloads = words_of(piece.schemas for piece in some), payloads_of(pipeline, "target")
    on_target = digests(spark, properties, plan.target.readable(wanted, gap=_NEAR), payloads, facets).cache()
    # One job reads both, before the watermarks are asked for: what retention removes meanwhile must count as gone.
    read_now(on_source, on_target)
    limits = [*plan.source.limits(topics), *plan.target.limits({span.target_topic for span in spans})]
    outcome = compare(pairs_of(every), on_source, on_target, spark.createDataFrame(limits, LIMITS)).cache()
    try:
        counted = _counted(outcome)
        tally.add_outcomes(counted)
        if any(each.outcome not in NO_FAULT for each in counted):
            tally.offenders += _offenders(outcome)
        # Copies in a former topic of the same name lie at the same offsets.
        of_today = clipped.where(F.col("target_topic_id").isin(*{span.target_topic_id for span in spans}))
        tally.add_unmapped(unmapped(spans, pairs_of(of_today), on_target, runs), some)
        _add_last_mapped(spark, clipped, plan, tally, some)
    finally:
        for frame in (outcome, on_target, on_source, every):
            frame.unpersist()


def read_now(*records: DataFrame) -> None:
    """Fills the caches of frames in one job, each once."""
    # Spark would merge a union into the one around it, and what is cached is the union as it was.
    reduce(DataFrame.union, (frame.select("offset") for frame in records)).count()


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
    dropping = drop_words(piece.drops for piece in some)
    changing = by_id({ChangeRules(piece.transform, pipeline.folders) for piece in some})
    frames = []
    for level in sorted({piece.isolation for piece in some}):
        wanted = [
            (TopicPartition(piece.topic, piece.partition), piece.start, piece.end)
            for piece in some
            if piece.isolation == level
        ]
        ranges = plan.source.readable(wanted, 0, level)
        read = {**properties, "isolation.level": level}
        frames.append(digests(spark, read, ranges, payloads, facets, expected, dropping, changing))
    return reduce(DataFrame.unionByName, frames)


def _parts(clipped: DataFrame) -> DataFrame:
    """The target offsets that neighbouring runs of a piece span in each target partition: columns of `Span`."""
    of_piece = ("topic", "partition", "piece", "target_topic", "target_topic_id", "target_partition", "alone")
    near = F.floor(F.col("target_start") / _NEAR).alias("near")
    first, last = F.min("target_start").alias("start"), F.max(F.col("target_start") + F.col("count")).alias("end")
    return clipped.groupBy(*of_piece, near).agg(first, last).select(*Span._fields)


def _offenders(outcome: DataFrame) -> list[Offender]:
    columns = ("topic", "partition", "source_offset", "target_topic", "target_partition", "target_offset")
    first = outcome.where(~F.col("outcome").isin(*NO_FAULT)).orderBy("topic", "partition", "source_offset")
    return [
        Offender(
            f"{row['topic']}-{row['partition']}@{row['source_offset']} {row['outcome']}", *(row[c] for c in columns)
        )
        for row in first.limit(SHOWN).collect()
    ]
