"""One evaluation's proof by batches: what could be compared, as far as it is proven."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import cast

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.index import MappingIndex
from k2k_assets.mapping.index.portions import Portion
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.clients.client_properties import ClusterRole
from k2k_assets.verification.content.by_batches.choosing import open_ends, to_prove
from k2k_assets.verification.content.by_batches.proving import TimeLimit, WantedStretch, proven_parts
from k2k_assets.verification.content.by_batches.reading import reasons_against
from k2k_assets.verification.content.by_batches.stretches import Proven, can_be_proven, cut, proven_by
from k2k_assets.verification.content.comparison import Comparison
from k2k_assets.verification.content.pieces import ComparedPiece
from k2k_assets.verification.content.record_comparison import clipped_runs
from k2k_assets.verification.content.sampling import Look, Unverified
from k2k_assets.verification.content.survey import Survey

_CHANGED = "the pipeline changes records, leaves some out, or has read them uncommitted"


def prove(
    spark: SparkSession,
    pipeline: Pipeline,
    index: MappingIndex,
    found: Survey,
    unverified: Mapping[TopicPartition, Unverified],
    look: Mapping[TopicPartition, Look],
    seconds: float,
) -> Proven:
    """Proves as much as time allows; nothing is proven where a cluster cannot be read by batches.

    Args:
        spark: The session.
        pipeline: The pipeline.
        index: The mapping index.
        found: What could be compared.
        unverified: From `found`.
        look: What the comparison by records would look at.
        seconds: How long it may take.
    """
    roles = cast(Sequence[ClusterRole], ("source", "target"))
    properties = [pipeline.client_properties(role, "consumer") for role in roles]
    for role, of_role in zip(roles, properties, strict=True):
        if reasons := reasons_against(of_role):
            return Proven(why=f"{role}: {'; '.join(reasons)}")
    runs_each = {tp: _runs_each(found.chosen[tp]) for tp in unverified}
    ranges = to_prove(unverified, look, found.seen(), runs_each)
    pieces = found.pieces_of(ranges).found
    provable = [piece for piece in pieces if can_be_proven(piece)]
    stretches = cut(provable, found.source.stable)
    if not stretches or seconds <= 0:
        return Proven(why=_CHANGED if pieces and not provable else "")
    limit = TimeLimit(time.time() + seconds, seconds)
    parts = proven_parts(
        clipped_runs(
            spark,
            index.runs(spark).where(F.col("topic").isin(*{piece.topic for piece in stretches})),
            Comparison(found.source, found.target, found.clusters.source),
            stretches,
        ),
        _wanted(stretches, found),
        {name: topic.topic_id for name, topic in found.target.topics.items()},
        (properties[0], properties[1]),
        limit,
    )
    return proven_by(provable, parts, open_ends(ranges, unverified))


def _runs_each(portions: Sequence[Portion]) -> float:
    """Number of runs for each mapped offset."""
    return sum(each.runs for each in portions) / max(1, sum(each.mapped for each in portions))


def _wanted(stretches: Sequence[ComparedPiece], found: Survey) -> dict[tuple[str, int, int], WantedStretch]:
    return {
        (each.topic, each.partition, each.start): WantedStretch(
            order, each.end, found.source.topics[each.topic].topic_id
        )
        for order, each in enumerate(stretches)
    }
