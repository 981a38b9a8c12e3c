"""The offset sync sensor: asks for a run of the consumer groups that moved, one run at a time per pipeline.

It starts no JVM, and neither does a run that finds the mappings checked; such a run polls for some minutes.
"""

from __future__ import annotations

import time

import dagster as dg

from k2k_assets.core.errors import K2KError
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.sensors.group_decision import GroupCursor, GroupFacts, MoveDecision, decide_groups
from k2k_assets.orchestration.sensors.group_observation import GroupObservation, observe_groups
from k2k_assets.orchestration.sensors.replication_sensor import INTERVAL_SECONDS, default_status, shown_assets
from k2k_assets.orchestration.sensors.run_history import failed_checks, last_run, made_by, running
from k2k_assets.pipeline import Pipeline
from k2k_assets.verification.mapping_checks import CHECKS

# A run reports how the groups stand when it ends.
_LONGEST_WINDOW_SECONDS = 300.0


def offset_sync_sensor(
    pipeline: Pipeline, names: AssetNames, job: dg.UnresolvedAssetJobDefinition
) -> dg.SensorDefinition:
    """The sensor of a pipeline.

    Args:
        pipeline: Whose groups to watch.
        names: Its names.
        job: The job that the runs are of: mappings and groups.
    """

    @dg.sensor(
        name=names.offset_sensor,
        job=job,
        minimum_interval_seconds=max(INTERVAL_SECONDS, int(pipeline.groups.poll_interval.total_seconds())),
        default_status=default_status(),
        description=f"Keeps the consumer groups of pipeline {pipeline.name} in step on the target.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        try:
            seen = observe_groups(pipeline)
        except K2KError as error:
            return dg.SkipReason(str(error))
        shown = shown_assets(context, names)
        cursor = GroupCursor.read(context.cursor)
        decision = decide_groups(_facts(context.instance, names, seen, shown, cursor), cursor)
        return _result(pipeline, names, decision, shown)

    return sensor


def _facts(
    instance: dg.DagsterInstance,
    names: AssetNames,
    seen: GroupObservation,
    shown: frozenset[dg.AssetKey],
    cursor: GroupCursor,
) -> GroupFacts:
    groups = {key for key in shown if names.is_consumer_group(key)}
    last = last_run(instance, names.offset_sync_tags)
    is_news = bool(cursor.asked) and last.run_id != cursor.before and last.ended is not None
    moved = made_by(instance, last.run_id) if last.run_id and is_news else frozenset()
    checks = [dg.AssetCheckKey(names.offset_mappings_key, check) for check in CHECKS]
    return GroupFacts(
        now=time.time(),
        groups=seen.groups,
        copied=seen.copied,
        unread=seen.unread,
        failed_checks=failed_checks(instance, checks),
        running=running(instance, names.offset_sync_tags, groups, besides=names.tags),
        copying=running(instance, names.mappings_tags, [names.offset_mappings_key], besides=names.tags),
        last_run=last.run_id,
        last_ended=last.ended,
        last_good=last.good,
        last_moved=frozenset(group for group in seen.groups if names.consumer_group_key(group) in moved),
    )


def _result(
    pipeline: Pipeline, names: AssetNames, decision: MoveDecision, shown: frozenset[dg.AssetKey]
) -> dg.SensorResult:
    cursor = decision.cursor.model_dump_json()
    if decision.run_key is None:
        return dg.SensorResult(skip_reason=decision.reason, cursor=cursor)
    known = [group for group in decision.groups if names.consumer_group_key(group) in shown]
    selection = [names.consumer_group_key(group) for group in known]
    if not known:
        # No asset of these yet: those of today's definitions stand for them.
        selection = sorted(key for key in shown if names.is_consumer_group(key))
    if decision.mappings:
        selection = [names.offset_mappings_key, *selection]
    also = [group for group in decision.groups if group not in known]
    window = min(pipeline.sync.window.total_seconds(), _LONGEST_WINDOW_SECONDS)
    config = {"window_seconds": window, "also": also}
    request = dg.RunRequest(
        run_key=decision.run_key,
        asset_selection=selection,
        run_config={"ops": {names.op("consumer_groups"): {"config": config}}},
        tags=names.offset_sync_tags,
    )
    return dg.SensorResult(run_requests=[request], cursor=cursor)
