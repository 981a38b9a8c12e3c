"""`k2k-offset-mapping failback`: writes exact positions back to the source's groups."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from k2k_assets.cli import logs
from k2k_assets.cli.exit_codes import epilog
from k2k_assets.cli.options import pipeline_files, template_engine
from k2k_assets.cli.streams import error_console
from k2k_assets.core.errors import Refused
from k2k_assets.core.words import plural
from k2k_assets.pipeline import Pipeline

if TYPE_CHECKING:
    from k2k_assets.groups.failback import BackRow, FailbackPlan, FailbackReport


@click.command(epilog=epilog(0, 1, 2, 3, 130), context_settings={"help_option_names": ["-h", "--help"]})
@pipeline_files
@click.option(
    "--reverse-file", "reverse_files", multiple=True, type=click.Path(dir_okay=False, path_type=Path),
    help="File of the pipeline from the target back to the source, if there is one. Repeat it as -f. A bidirectional "
    "pipeline finds the mappings of that one without it.",
)  # fmt: skip
@template_engine
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
def failback(files: tuple[Path, ...], reverse_files: tuple[Path, ...], variables: bool, dry_run: bool) -> None:
    """Writes the positions that groups have reached on the target back to the SOURCE cluster.

    No other command writes to the source. Groups that have members on either side are refused: stop their consumers
    first. Groups that have read nothing on the target stay where they are.
    """
    from k2k_assets.groups.mapper_file import load_mapper_pipeline

    logs.configure(error_console())
    reverse = load_mapper_pipeline(reverse_files, variables=variables) if reverse_files else None
    _failback(load_mapper_pipeline(files, variables=variables), reverse, dry_run)


def _failback(pipeline: Pipeline, reverse: Pipeline | None, dry_run: bool) -> None:
    # Importing Kafka and Arrow takes a moment, which --help does not need.
    from k2k_assets.groups.failback import execute
    from k2k_assets.groups.failback_view import failback_plans
    from k2k_assets.kafka.clusters import both_clusters

    with both_clusters(pipeline) as (source, target):
        plans = failback_plans(pipeline, source, target, reverse)
        for plan in plans:
            click.echo(_plan_lines(plan))
        if dry_run:
            click.echo(f"{_writes(plans)} would be written to the {source}; nothing was")
            return
        report = execute(plans, source, target, pipeline.groups.offset_guard_prefix)
    click.echo(_report_line(pipeline, report))
    if left := {**report.refused, **report.failed}:
        reasons = "".join(f"\n  {group}: {why}" for group, why in sorted(left.items()))
        raise Refused(f"{plural(len(left), 'group')} did not return, or not with all partitions:{reasons}")


def _plan_lines(plan: FailbackPlan) -> str:
    return "\n".join([plan.group, *map(_row_line, plan.rows)])


def _row_line(row: BackRow) -> str:
    held = f"{row.on_source.offset:,}" if row.on_source else "-"
    there = f"{row.offset:,}" if row.offset >= 0 else "-"
    targets = ", ".join(f"{target} at {committed.offset:,}" for target, committed in row.targets)
    again = f", {plural(row.again, 'record')}" if row.again else ""
    return f"  {row.source}: {held} -> {there if row.commit else 'stays'}  {row.decision}{again}  (target {targets})"


def _writes(plans: Sequence[FailbackPlan]) -> str:
    positions = plural(sum(len(plan.commits) for plan in plans), "position")
    return f"{positions} of {plural(sum(1 for plan in plans if plan.commits), 'group')}"


def _report_line(pipeline: Pipeline, report: FailbackReport) -> str:
    return (
        f"{pipeline.name}: {plural(len(report.written), 'group')} written to the source, {len(report.unchanged)} "
        f"already correct, {len(report.refused)} refused, {len(report.failed)} failed"
    )
