"""Reads the runs of a continuous job from Dagster's instance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import dagster as dg

from k2k_assets.coordination.liveness import Presence, heartbeat_timeout_seconds
from k2k_assets.orchestration.runs.run_tags import window_of
from k2k_assets.orchestration.sensors.next_run_decision import ActiveRun, EndedRun, SyncFacts
from k2k_assets.pipeline import Pipeline

_WAITING = (dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED)
_ENDED: Mapping[dg.DagsterRunStatus, Literal["success", "failure", "canceled"]] = {
    dg.DagsterRunStatus.SUCCESS: "success",
    dg.DagsterRunStatus.FAILURE: "failure",
    dg.DagsterRunStatus.CANCELED: "canceled",
}
# Enough to count consecutive failures up to the longest wait. The maintenance job keeps these runs.
RUNS_LOOKED_AT = 10


def sync_runs(instance: dg.DagsterInstance, tags: Mapping[str, str]) -> tuple[list[ActiveRun], list[EndedRun]]:
    """The newest runs with some tags: those that have not ended, and those that have; the newest come first."""
    active, ended = [], []
    for record in instance.get_run_records(dg.RunsFilter(tags=dict(tags)), limit=RUNS_LOOKED_AT):
        run, created = record.dagster_run, record.create_timestamp.timestamp()
        if how := _ENDED.get(run.status):
            started = record.start_time or created
            ended.append(EndedRun(run_id=run.run_id, how=how, started=started, ended=record.end_time or started))
        else:
            waits = run.status in _WAITING
            ends = run.status is dg.DagsterRunStatus.CANCELING
            since = record.start_time or created
            window = window_of(run.tags)
            active.append(ActiveRun(run_id=run.run_id, waits=waits, ends=ends, since=since, window=window))
    return active, ended


def sync_facts(
    context: dg.SensorEvaluationContext,
    pipeline: Pipeline,
    tags: Mapping[str, str],
    look: tuple[float, float],
    nothing_to_do: str,
    instances: Mapping[str, Presence],
) -> SyncFacts:
    """The facts of a tick, with the runs from Dagster.

    Args:
        context: Context of the tick.
        pipeline: The pipeline.
        tags: Tags of the runs.
        look: Begin and end of the observation of the clusters, seconds since the epoch.
        nothing_to_do: Why no run is needed; empty if one is.
        instances: Continuous instances, or mappers, by name.
    """
    active, ended = sync_runs(context.instance, tags)
    return SyncFacts(
        looked=look[0],
        now=look[1],
        switched_on=context.last_sensor_start_time or 0.0,
        window=pipeline.sync.window.total_seconds(),
        nothing_to_do=nothing_to_do,
        active=tuple(active),
        ended=tuple(ended),
        instances=dict(instances),
        heartbeat_timeout=heartbeat_timeout_seconds(pipeline),
    )


def report_dead(instance: dg.DagsterInstance, run_ids: Iterable[str]) -> None:
    """Reports dead runs as failed, because Dagster's default launcher does not watch its processes."""
    for run_id in run_ids:
        run = instance.get_run_by_id(run_id)
        if run is not None and not run.is_finished:
            instance.report_run_failed(
                run, "the process of this run is gone: it has written no heartbeat to the assignment topic for too long"
            )
