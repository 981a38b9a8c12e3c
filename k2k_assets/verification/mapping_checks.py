"""The checks on a pipeline's mappings, by name. Each compares an index with both clusters. Without Dagster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from k2k_assets.control.commit_log import read_commit_log
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.permissions.topic_check import TopicCheck
from k2k_assets.pipeline import Pipeline
from k2k_assets.verification.coverage import CoveredRow, check_coverage
from k2k_assets.verification.order import check_order
from k2k_assets.verification.verdict import Verdict
from k2k_assets.verification.watermarks import check_watermarks, target_extents

# Pandera with pandas, and pyarrow, are slow to import, and each code server, sensor and run that loads the definitions
# would pay for it: so they are imported where they are used.
if TYPE_CHECKING:
    from k2k_assets.mapping.index import MappingIndex


@dataclass(frozen=True, slots=True)
class Evidence:
    """The input of a check.

    Attributes:
        pipeline: The pipeline.
        spark: The session for bulk work.
        index: The version of the index to check.
        source: The source cluster.
        target: The target cluster.
    """

    pipeline: Pipeline
    spark: SparkSession
    index: MappingIndex
    source: Cluster
    target: Cluster


Check = Callable[[Evidence], Verdict]


def run_check(name: str, evidence: Evidence) -> Verdict:
    """Runs one check without Dagster.

    Raises:
        K2KError: A cluster does not answer, a permission is missing, or the index cannot be used.
    """
    _ensure_permitted(evidence)
    return CHECKS[name][0](evidence)


def _ensure_permitted(evidence: Evidence) -> None:
    """Raises if permissions are missing, because hidden topics would look like topics that do not exist."""
    pipeline = evidence.pipeline
    topics = {position.topic for position in evidence.index.manifest.positions}
    selected = [topic for topic in topics if pipeline.selection.matches(topic)]
    # A topic without a route today needs no permission, and must not prevent the check of the others.
    targets = [target for topic in selected if (target := pipeline.routing.target_if_any(topic)) is not None]
    TopicCheck(pipeline, evidence.source, evidence.target, "checks", selected, targets).ensure_existing()


def _schema(evidence: Evidence) -> Verdict:
    from k2k_assets.verification.schema import check_schema

    coverage = evidence.index.coverage(evidence.spark).cache()
    try:
        return _with_runs(evidence, lambda runs: check_schema(runs, coverage))
    finally:
        coverage.unpersist()


def _order(evidence: Evidence) -> Verdict:
    return _with_runs(evidence, check_order)


def _coverage(evidence: Evidence) -> Verdict:
    cluster_id = evidence.source.cluster_id()
    rows = evidence.index.coverage(evidence.spark).where(F.col("cluster") == cluster_id).collect()
    covered = [
        CoveredRow(r["topic"], r["source_topic_id"], r["partition"], r["covered_from"], r["covered_to"]) for r in rows
    ]
    # Read after the index: positions only rise, so the mappings of the index cannot lie above them.
    log = read_commit_log(evidence.pipeline, cluster_id, evidence.target)
    now = {tp: record.position for tp, record in log.positions.items()}
    manifest = evidence.index.manifest
    return check_coverage(covered, manifest.positions, now, manifest.lost, manifest.pruned)


def _watermarks(evidence: Evidence) -> Verdict:
    return check_watermarks(target_extents(evidence.index.runs(evidence.spark)), evidence.source, evidence.target)


def _content(evidence: Evidence) -> Verdict:
    from k2k_assets.verification.content.check import check_content

    return check_content(evidence.spark, evidence.pipeline, evidence.index, evidence.source, evidence.target)


def _with_runs(evidence: Evidence, check: Callable[[DataFrame], Verdict]) -> Verdict:
    runs = evidence.index.runs(evidence.spark).cache()
    try:
        return check(runs)
    finally:
        runs.unpersist()


CHECKS: dict[str, tuple[Check, str]] = {
    "schema_and_ranges": (
        _schema,
        "Every column of the offset ranges, and of what they cover, is there, of its type, not null and in its range.",
    ),
    "ordered_and_disjoint": (_order, "No offset is mapped twice on either side, and both sides rise together."),
    "coverage": (_coverage, "From where copying began to the committed position every offset is answered for."),
    "within_watermarks": (_watermarks, "Every target offset in the mappings lies below the high watermark."),
    "content": (
        _content,
        "What was copied since the last time, and stretches of the rest, is the same on both sides.",
    ),
}
