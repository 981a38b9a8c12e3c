"""The offset sync sensor: keeps one run of the offset sync job that moves the consumer groups.

The sensor and the runs start no JVM. While a `k2k-offset-mapping` moves the groups, the sensor requests no run.
"""

from __future__ import annotations

import dagster as dg

from k2k_assets.core.clock import SYSTEM_CLOCK, Clock
from k2k_assets.core.errors import K2KError
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.runs.report_schedule import group_run_window
from k2k_assets.orchestration.sensors.asked_reloads import AskedReloads
from k2k_assets.orchestration.sensors.group_observation import GroupObservation, observe_groups
from k2k_assets.orchestration.sensors.next_run_decision import MOVING_GROUPS, WatchCursor, decide_sync
from k2k_assets.orchestration.sensors.replication_sensor import INTERVAL_SECONDS, default_status, staying_run
from k2k_assets.orchestration.sensors.shown_assets import show_anew, shown_assets
from k2k_assets.orchestration.sensors.sync_history import report_dead, sync_facts
from k2k_assets.pipeline import Pipeline

VERSION = 2


class GroupCursor(WatchCursor):
    """The cursor of the sensor.

    Attributes:
        reloads: What was done so that the UI shows discovered groups.
    """

    version: int = VERSION
    reloads: AskedReloads = AskedReloads()


def offset_sync_sensor(
    pipeline: Pipeline, names: AssetNames, job: dg.UnresolvedAssetJobDefinition, clock: Clock = SYSTEM_CLOCK
) -> dg.SensorDefinition:
    """The sensor of a pipeline.

    Args:
        pipeline: The pipeline.
        names: The pipeline's names.
        job: The job of the runs.
        clock: Clock for the silence of mappers.
    """

    @dg.sensor(
        name=names.offset_sensor,
        job=job,
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=default_status(),
        description=f"Keeps the consumer groups of pipeline {pipeline.name} in step on the target.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        looked = clock.time()
        before = GroupCursor.read(context.cursor)
        try:
            seen = observe_groups(pipeline)
        except K2KError as error:
            cursor = before.model_copy(update={"missed": True})
            return dg.SensorResult(skip_reason=str(error), cursor=cursor.model_dump_json())
        look = looked, clock.time()
        facts = sync_facts(context, pipeline, names.offset_sync_tags, look, seen.nothing_to_do, seen.mappers)
        heard = before.heard_until(looked, facts.heartbeat_timeout)
        decision = decide_sync(facts, heard, MOVING_GROUPS)
        report_dead(context.instance, decision.dead)
        reloads = show_anew(context, names, seen.found, shown_assets(context, names), before.reloads, clock.time())
        requests = [_request(pipeline, names, seen, decision.run_key)] if decision.run_key else []
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if requests else decision.reason,
            cursor=GroupCursor(heard=decision.heard, looked=look[1], reloads=reloads).model_dump_json(),
        )

    return sensor


def _request(pipeline: Pipeline, names: AssetNames, seen: GroupObservation, run_key: str) -> dg.RunRequest:
    window = group_run_window(
        pipeline.sync.window.total_seconds(), pipeline.groups.reports_per_day, len(seen.found.groups)
    )
    job, tags, op = names.offset_sync_job, names.offset_sync_tags, names.op("consumer_groups")
    return staying_run(pipeline, run_key, job, tags, op, window)
