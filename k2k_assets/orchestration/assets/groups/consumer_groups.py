"""The consumer groups of a pipeline on the target: one subsettable multi-asset, a check on each group."""

# Without `from __future__ import annotations`: Dagster wants the parameters' classes, not their names.

from collections.abc import Iterator, Mapping
from enum import Enum

import dagster as dg
from pydantic import Field

from k2k_assets.core.words import plural
from k2k_assets.discovery import refresh
from k2k_assets.groups.report import PollResult
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.orchestration.assets.data_versions import current_version
from k2k_assets.orchestration.assets.groups.group_results import failed_groups, group_materialization, groups_summary
from k2k_assets.orchestration.checks.asset_checks import asset_check_result, group_check_specs, mappings_of
from k2k_assets.orchestration.checks.evaluations import RunVerdicts
from k2k_assets.orchestration.checks.last_verdicts import why_unproven
from k2k_assets.orchestration.failures import failures_as_messages
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.runs.interruption import WHAT_FOLLOWS, interruptible, telling_of_termination
from k2k_assets.orchestration.runs.run_process import note_process
from k2k_assets.orchestration.runs.run_tags import note_worked
from k2k_assets.orchestration.runs.watched_copy import watched
from k2k_assets.pipeline import Pipeline
from k2k_assets.verification.groups.turns import next_turn
from k2k_assets.verification.verdict import Verdict

Results = Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]


class MoveExtent(Enum):
    """When a run ends."""

    once = "once"
    continuous = "continuous"


class GroupsConfig(dg.Config):
    """Run config of the consumer groups op."""

    extent: MoveExtent = Field(
        default=MoveExtent.once,
        description="once: moves the selected groups once. continuous: moves all groups of the pipeline each "
        "`groups.pollInterval`, until another run takes over, which the offset sync sensor requests after "
        "`sync.window`.",
    )
    window_seconds: float | None = Field(
        default=None, gt=0, description="Replaces `sync.window` of the pipeline file, with `extent: continuous`."
    )


def consumer_group_assets(pipeline: Pipeline, names: AssetNames, groups: list[str]) -> dg.AssetsDefinition:
    """The multi-asset; a single asset represents all groups while none is known."""
    if not groups:
        return _undiscovered(pipeline, names)
    by_key = {names.consumer_group_key(group): group for group in groups}
    specs = group_check_specs(names, groups)

    @dg.multi_asset(
        name=names.op("consumer_groups"),
        group_name=names.consumer_groups_group,
        description="Commits the translated positions of consumer groups on the target.",
        outs={
            names.group_output(group): dg.AssetOut(
                key=names.consumer_group_key(group),
                is_required=False,
                dagster_type=dg.Nothing,
                description=f"Consumer group `{group}` on the target, with its translated source positions. "
                "A group that has members on the target is left alone.",
                kinds={"kafka"},
            )
            for group in groups
        },
        ins=_upstream(names),
        can_subset=True,
        check_specs=list(specs.values()),
    )
    @interruptible
    def move_groups(context: dg.AssetExecutionContext, config: GroupsConfig) -> Results:
        if config.extent is MoveExtent.continuous:
            _keep_in_step(context, pipeline, names, config, groups)
            return
        from k2k_assets.orchestration.assets.groups.group_sync import limited_to

        selected = {by_key[key] for key in context.selected_asset_keys}
        result, verdicts = _sync(limited_to(pipeline, selected))
        for group in sorted(selected.difference(result.decisions, result.failed)):
            context.log.warning(f"group {group} has no commit on a mapped topic of the source: nothing to translate")
        yield from _results(context, pipeline, names, result, verdicts, {group: specs[group].key for group in selected})
        if result.failed:
            raise failed_groups(pipeline.name, result.failed)

    return move_groups


def _undiscovered(pipeline: Pipeline, names: AssetNames) -> dg.AssetsDefinition:
    pattern = str(pipeline.groups.consumer_groups)

    @dg.multi_asset(
        name=names.op("consumer_groups"),
        group_name=names.consumer_groups_group,
        outs={
            names.group_output("undiscovered groups"): dg.AssetOut(
                key=names.undiscovered_groups_key(pattern),
                dagster_type=dg.Nothing,
                description=f"The consumer groups that match `{pattern}`; none is discovered yet. Materialize it to "
                "discover and move them all; then reload the definitions to see an asset for each group.",
                kinds={"kafka"},
            )
        },
        ins=_upstream(names),
    )
    @interruptible
    def discover_and_move(context: dg.AssetExecutionContext, config: GroupsConfig) -> Results:
        if config.extent is MoveExtent.continuous:
            _keep_in_step(context, pipeline, names, config, [])
            return
        with failures_as_messages(), both_clusters(pipeline) as (source, target):
            found = refresh(pipeline, source, target)
        context.log.info(f"discovered {plural(len(found.groups), 'consumer group')}: {', '.join(found.groups)}")
        result, verdicts = _sync(pipeline)
        yield from _results(context, pipeline, names, result, verdicts, {})
        if result.failed:
            raise failed_groups(pipeline.name, result.failed)
        yield dg.MaterializeResult(metadata=groups_summary(result))

    return discover_and_move


def _upstream(names: AssetNames) -> dict[str, dg.AssetIn]:
    return {"offset_mappings": dg.AssetIn(key=names.offset_mappings_key, dagster_type=dg.Nothing)}


def _sync(pipeline: Pipeline) -> tuple[PollResult, dict[str, Verdict]]:
    # Imported here because of pyarrow, which a run that copies does not need.
    from k2k_assets.orchestration.assets.groups.group_sync import sync_groups
    from k2k_assets.verification.groups.check import check_groups

    with failures_as_messages():
        result = sync_groups(pipeline)
        with both_clusters(pipeline) as (source, target):
            return result, check_groups(pipeline, result, source, target, turn=next_turn(pipeline.name))


def _keep_in_step(
    context: dg.AssetExecutionContext, pipeline: Pipeline, names: AssetNames, config: GroupsConfig, groups: list[str]
) -> None:
    """Moves all groups of the pipeline, also new ones, until another run takes over."""
    from k2k_assets.orchestration.assets.groups.group_run import GroupRun
    from k2k_assets.orchestration.assets.groups.group_sync import keep_in_step, newest_poll
    from k2k_assets.orchestration.runs.run_telemetry import mapper_telemetry
    from k2k_assets.verification.groups.check import check_groups

    note_process(context)
    with failures_as_messages(), both_clusters(pipeline) as (source, target), mapper_telemetry(pipeline) as beside:
        mappings = mappings_of(pipeline.group, source.cluster_id(), target.cluster_id(), pipeline.offset_mapping.topic)
        run = GroupRun(
            pipeline=pipeline,
            names=names,
            window=pipeline.sync.window.total_seconds() if config.window_seconds is None else config.window_seconds,
            shown=groups,
            sink=context,
            verdicts=RunVerdicts(context.instance, context.run_id, context.job_name),
            verify=lambda result, some: check_groups(
                pipeline, result, source, target, some, turn=next_turn(pipeline.name)
            ),
            mappings_version=lambda: current_version(context.instance, names.offset_mappings_key),
            log=context.log.info,
            warn=context.log.warning,
            works=lambda: note_worked(context),
        )
        context.log.info(
            "the consumer groups are moved until the next run of this job takes over. If somebody terminates it, it "
            f"ends after the present commit, and {WHAT_FOLLOWS}"
        )
        with telling_of_termination(context):
            superseded = watched(
                lambda stop, listener: keep_in_step(
                    pipeline,
                    stop,
                    beside(listener),
                    context.run_id,
                    lambda: why_unproven(context.instance, names, mappings),
                ),
                run,
                newest_poll,
            )
        context.log.info(run.ending(superseded))


def _results(
    context: dg.AssetExecutionContext,
    pipeline: Pipeline,
    names: AssetNames,
    result: PollResult,
    verdicts: dict[str, Verdict],
    checks: Mapping[str, dg.AssetCheckKey],
) -> Results:
    """Yields the translated groups, each with its check.

    Args:
        context: Context of the step.
        pipeline: The pipeline.
        names: The pipeline's names.
        result: The poll.
        verdicts: Verdicts by group. A group without one was not checked this time (`check_groups`), and its last
            verdict remains.
        checks: Checks of the groups that are selected assets; the others are recorded too.
    """
    for group in result.groups:
        if group in result.failed:
            continue
        shown = group_materialization(result, group)
        key = names.consumer_group_key(group)
        if group in checks:
            yield dg.MaterializeResult(asset_key=key, metadata=shown.metadata, data_version=shown.data_version)
            if group in verdicts and checks[group] in context.selected_asset_check_keys:
                yield asset_check_result(checks[group], verdicts[group], pipeline.files)
        else:
            context.log_event(dg.AssetMaterialization(asset_key=key, metadata=shown.metadata))
            if verdict := verdicts.get(group):
                said = context.log.info if verdict.passed else context.log.error
                said(f"group {group}: {verdict.summary}")
