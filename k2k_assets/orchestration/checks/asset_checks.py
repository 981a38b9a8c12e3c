"""The checks on mappings and consumer groups as Dagster asset checks; the logic is in `verification/`.

`verification/mapping_checks.py` lists the checks on mappings.
"""

# Without `from __future__ import annotations`: Dagster wants the parameters' classes, not their names.

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import dagster as dg

from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.failures import failures_as_messages
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.runs.interruption import interruptible
from k2k_assets.orchestration.runs.run_heartbeats import run_heartbeats
from k2k_assets.pipeline import Pipeline
from k2k_assets.verification.mapping_checks import CHECKS, Evidence, run_check
from k2k_assets.verification.verdict import Judgement, Offender, Verdict, VerifiedPosition

# Counts that tell something as a plot; the others are in a table.
_PLOTTED = ("offending", "compared", "skipped", "read_again", "not_comparable")


def mapping_checks(pipeline: Pipeline, names: AssetNames) -> dg.AssetChecksDefinition:
    """The blocking checks on a pipeline's offset mappings.

    All in one op: where an executor gives each step a process of its own, each step starts a JVM.
    """
    specs = {
        name: dg.AssetCheckSpec(name, asset=names.offset_mappings_key, description=description, blocking=True)
        for name, (_, description) in CHECKS.items()
    }

    @dg.multi_asset_check(
        name=names.mapping_checks_op,
        specs=list(specs.values()),
        can_subset=True,
        required_resource_keys={names.resource},
    )
    @interruptible
    def checked(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        from k2k_assets.mapping.index import MappingIndex

        step = context.op_execution_context
        resource = getattr(step.resources, names.resource)
        alive = run_heartbeats(pipeline, step.run_id)
        with failures_as_messages(), alive, both_clusters(pipeline) as (source, target):
            index = MappingIndex.open(pipeline)
            judged = index.manifest
            what = mappings_of(judged.group, judged.source_cluster, judged.target_cluster, judged.mapping_topic)
            evidence = Evidence(pipeline, resource.session(), index, source, target)
            for name, spec in specs.items():
                if spec.key in step.selected_asset_check_keys:
                    verdict = run_check(name, evidence)
                    yield asset_check_result(spec.key, verdict, pipeline.files, {keys.MAPPINGS: what})

    return checked


def mappings_of(group: str, source_cluster: str, target_cluster: str, topic: str) -> str:
    """Whose mappings a verdict is about: a pipeline file may name other clusters since, or another group.

    Args:
        group: `group.id` of the pipeline.
        source_cluster: Cluster id.
        target_cluster: Cluster id.
        topic: The mapping topic.
    """
    return f"group {group}, cluster {source_cluster} to {target_cluster}, {topic}"


def group_check_specs(names: AssetNames, groups: Collection[str]) -> dict[str, dg.AssetCheckSpec]:
    """The check on each consumer group (`verification.groups.check`).

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


def asset_check_result(
    check: dg.AssetCheckKey,
    verdict: Verdict,
    files: Sequence[Path] = (),
    more: Mapping[str, str] = MappingProxyType({}),
) -> dg.AssetCheckResult:
    """A verdict in Dagster's terms; a doubt is a failure of severity WARN, which blocks nothing.

    Args:
        check: Which check.
        verdict: What it found.
        files: Of the pipeline: with them goes the command that shows the first record that offends.
        more: Further metadata.
    """
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
    offenders: keys.Metadata = {keys.OFFENDERS: keys.table(columns, rows)} if verdict.offenders else {}
    verified: keys.Metadata = {keys.VERIFIED: _verified(verdict.verified)} if verdict.verified else {}
    if command := next(filter(None, (_showing(files, offender) for offender in verdict.offenders)), None):
        offenders[keys.SHOW] = command
    return dg.AssetCheckResult(
        passed=verdict.passed,
        asset_key=check.asset_key,
        check_name=check.name,
        severity=dg.AssetCheckSeverity.WARN if verdict.judgement is Judgement.WARNED else dg.AssetCheckSeverity.ERROR,
        description=verdict.summary,
        metadata={
            keys.SUMMARY: verdict.summary,
            **{f"k2k/{what}": verdict.counts[what] for what in _PLOTTED if what in verdict.counts},
            **_looked_at(verdict.verified),
            keys.COUNTS: keys.table({"what": "string", "count": "int"}, sorted(verdict.counts.items())),
            **({keys.WAY: verdict.way} if verdict.way else {}),
            **verified,
            **offenders,
            **more,
        },
    )


def _looked_at(positions: Sequence[VerifiedPosition]) -> keys.Metadata:
    readable = sum(position.readable for position in positions)
    part = sum(position.looked_at for position in positions)
    return {keys.LOOKED_AT: round(100 * part / readable, 1)} if readable else {}


def _verified(positions: Sequence[VerifiedPosition]) -> dg.TableMetadataValue:
    """How far each partition is verified: what is bad, and least of which was looked at, comes first."""
    columns = {
        "topic": "string",
        "partition": "int",
        "verified to": "int",
        "end": "int",
        "looked at, %": "float",
        "bad stretches": "int",
    }
    worst = sorted(positions, key=lambda p: (-p.bad, p.verified_to is not None, p.looked_at / p.readable))
    rows = (
        (p.topic, p.partition, p.verified_to, p.end, round(100 * p.looked_at / p.readable, 1), p.bad) for p in worst
    )
    return keys.table(columns, rows, keys.MOST_ROWS_AGAIN)


def _showing(files: Sequence[Path], offender: Offender) -> str | None:
    """The command that shows the records of an offender; None where it names none."""
    sides = (
        ("-o", offender.topic, offender.partition, offender.source_offset),
        ("--target", offender.target_topic, offender.target_partition, offender.target_offset),
    )
    places = [part for option, *at in sides if None not in at for part in (option, ":".join(map(str, at)))]
    if not files or not places:
        return None
    return shlex.join(["k2k-tool", "show", "-f", ",".join(map(str, files)), *places])
