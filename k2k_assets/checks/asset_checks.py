"""The checks on mappings and consumer groups as Dagster asset checks: thin, the logic is in the modules beside it."""

# Without `from __future__ import annotations`: Dagster wants the parameters' classes, not their names.

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from k2k_assets.assets import metadata as keys
from k2k_assets.assets.failures import failures_in_words
from k2k_assets.assets.translator import Translator
from k2k_assets.checks.coverage import CoveredRow, check_coverage
from k2k_assets.checks.order import check_order
from k2k_assets.checks.verdict import Judgement, Verdict
from k2k_assets.checks.watermarks import check_watermarks, target_extents
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.permissions.topic_check import TopicCheck
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.commit_log import read_commit_log
from k2k_assets.resources.clusters import both_clusters

# Pandera with pandas, and pyarrow, take their time to import. Each code server, sensor and run would pay for it that
# loads the definitions, so they are imported where they are used.
if TYPE_CHECKING:
    from k2k_assets.mapping.index import MappingIndex


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a check may look at.

    Attributes:
        pipeline: Whose mappings.
        spark: For bulk work.
        index: The version to judge.
        source: The source cluster.
        target: The target cluster.
    """

    pipeline: Pipeline
    spark: SparkSession
    index: "MappingIndex"
    source: Cluster
    target: Cluster


Check = Callable[[Evidence], Verdict]


def _schema(evidence: Evidence) -> Verdict:
    from k2k_assets.checks.schema import check_schema

    return _with_runs(evidence, check_schema)


def _order(evidence: Evidence) -> Verdict:
    return _with_runs(evidence, check_order)


def _coverage(evidence: Evidence) -> Verdict:
    cluster_id = evidence.source.cluster_id()
    rows = evidence.index.coverage(evidence.spark).where(F.col("cluster") == cluster_id).collect()
    covered = [
        CoveredRow(r["topic"], r["source_topic_id"], r["partition"], r["covered_from"], r["covered_to"]) for r in rows
    ]
    # Read after the index: positions only rise, so what the index has cannot lie above them.
    log = read_commit_log(evidence.pipeline, cluster_id, evidence.target)
    now = {tp: record.position for tp, record in log.positions.items()}
    manifest = evidence.index.manifest
    return check_coverage(covered, manifest.positions, now, manifest.lost, manifest.pruned)


def _watermarks(evidence: Evidence) -> Verdict:
    return check_watermarks(target_extents(evidence.index.runs(evidence.spark)), evidence.source, evidence.target)


def _content(evidence: Evidence) -> Verdict:
    from k2k_assets.checks.content import check_content

    return check_content(evidence.spark, evidence.pipeline, evidence.index, evidence.source, evidence.target)


def _with_runs(evidence: Evidence, check: Callable[[DataFrame], Verdict]) -> Verdict:
    runs = evidence.index.runs(evidence.spark).cache()
    try:
        return check(runs)
    finally:
        runs.unpersist()


CHECKS: dict[str, tuple[Check, str]] = {
    "schema_and_ranges": (_schema, "Every column of the runs is there, of its type, not null and in its range."),
    "ordered_and_disjoint": (_order, "No offset is mapped twice on either side, and both sides rise together."),
    "coverage": (_coverage, "From where copying began to the committed position every offset is answered for."),
    "within_watermarks": (_watermarks, "Every target offset in the mappings lies below the high watermark."),
    "content": (_content, "Sampled stretches hold the same records, in the same order, on both clusters."),
}


def mapping_checks(pipeline: Pipeline, names: Translator) -> Iterable[dg.AssetChecksDefinition]:
    """The blocking checks on a pipeline's offset mappings, each an op of its own."""
    return [_definition(pipeline, names, name, description) for name, (_, description) in CHECKS.items()]


def group_check_specs(names: Translator, groups: Collection[str]) -> dict[str, dg.AssetCheckSpec]:
    """The check on each consumer group (`checks.group_content`).

    It is run by the op that translates the groups, so that both speak of the same positions.
    """
    return {
        group: dg.AssetCheckSpec(
            check,
            asset=names.consumer_group_key(group),
            description="By content, on both clusters: the group goes on at the record at which it stands on the "
            "source. Nothing is skipped; one to one, nothing is read again.",
        )
        for group, check in names.group_checks(groups).items()
    }


def run_check(name: str, evidence: Evidence) -> Verdict:
    """Runs one check without Dagster.

    Raises:
        K2KError: A cluster does not answer, a permission is missing, or the index cannot be used.
    """
    _ensure_permitted(evidence)
    return CHECKS[name][0](evidence)


def _ensure_permitted(evidence: Evidence) -> None:
    """What may not be seen would look like what does not exist."""
    pipeline = evidence.pipeline
    topics = {position.topic for position in evidence.index.manifest.positions}
    selected = [topic for topic in topics if pipeline.selection.matches(topic)]
    # One that is not routed anywhere any more needs no permission, and must not keep the others unchecked.
    targets = [target for topic in selected if (target := pipeline.routing.target_if_any(topic)) is not None]
    TopicCheck(pipeline, evidence.source, evidence.target, "checks", selected, targets).ensure_existing()


def _definition(pipeline: Pipeline, names: Translator, name: str, description: str) -> dg.AssetChecksDefinition:
    spec = dg.AssetCheckSpec(name, asset=names.offset_mappings_key, description=description, blocking=True)

    @dg.multi_asset_check(name=names.check_op(name), specs=[spec], required_resource_keys={names.resource})
    def checked(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        from k2k_assets.mapping.index import MappingIndex

        resource = getattr(context.op_execution_context.resources, names.resource)
        with failures_in_words(), both_clusters(pipeline) as (source, target):
            evidence = Evidence(pipeline, resource.session(), MappingIndex.open(pipeline), source, target)
            return asset_check_result(spec.key, run_check(name, evidence))

    return checked


def asset_check_result(check: dg.AssetCheckKey, verdict: Verdict) -> dg.AssetCheckResult:
    """A verdict in Dagster's terms; a doubt is a failure of severity WARN, which blocks nothing."""
    columns = {
        "what": "string",
        "topic": "string",
        "partition": "int",
        "source offset": "int",
        "target topic": "string",
        "target partition": "int",
        "target offset": "int",
    }
    rows = (
        (o.what, o.topic, o.partition, o.source_offset, o.target_topic, o.target_partition, o.target_offset)
        for o in verdict.offenders
    )
    offenders = {keys.OFFENDERS: keys.table(columns, rows)} if verdict.offenders else {}
    return dg.AssetCheckResult(
        passed=verdict.passed,
        asset_key=check.asset_key,
        check_name=check.name,
        severity=dg.AssetCheckSeverity.WARN if verdict.judgement is Judgement.WARNED else dg.AssetCheckSeverity.ERROR,
        description=verdict.summary,
        metadata={
            keys.SUMMARY: verdict.summary,
            **{f"k2k/{what}": count for what, count in verdict.counts.items()},
            **offenders,
        },
    )
