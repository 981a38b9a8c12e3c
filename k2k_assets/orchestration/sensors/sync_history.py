"""Reads the runs of a continuous job from Dagster's instance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal

import dagster as dg

from k2k_assets.coordination.liveness import Presence, heartbeat_timeout_seconds
from k2k_assets.orchestration.runs.run_process import is_gone
from k2k_assets.orchestration.runs.run_tags import has_worked, window_of
from k2k_assets.orchestration.sensors.next_run_decision import ActiveRun, EndedRun, SyncFacts
from k2k_assets.orchestration.sensors.run_history import RUNS_LOOKED_AT, never_began
from k2k_assets.pipeline import Pipeline

_WAITING = (dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED)
_ENDED: Mapping[dg.DagsterRunStatus, Literal["success", "failure", "canceled"]] = {
    dg.DagsterRunStatus.SUCCESS: "success",
    dg.DagsterRunStatus.FAILURE: "failure",
    dg.DagsterRunStatus.CANCELED: "canceled",
}


def sync_runs(
    instance: dg.DagsterInstance, tags: Mapping[str, str], now: float
) -> tuple[list[ActiveRun], list[EndedRun]]:
    """The newest runs with some tags: those that have not ended, and those that have; the newest come first.

    Args:
        instance: Dagster's instance.
        tags: Their tags.
        now: Seconds since the epoch.
    """
    active, ended = [], []
    for record in instance.get_run_records(dg.RunsFilter(tags=dict(tags)), limit=RUNS_LOOKED_AT):
        run, created = record.dagster_run, record.create_timestamp.timestamp()
        if how := _ENDED.get(run.status):
            started = record.start_time or created
            end = record.end_time or started
            ended.append(
                EndedRun(
                    run_id=run.run_id,
                    number=record.storage_id,
                    how=how,
                    started=started,
                    ended=end,
                    gone=is_gone(run),
                    worked=has_worked(run),
                )
            )
        else:
            active.append(
                ActiveRun(
                    run_id=run.run_id,
                    number=record.storage_id,
                    waits=run.status in _WAITING,
                    ends=run.status is dg.DagsterRunStatus.CANCELING,
                    started=record.start_time is not None,
                    gone=is_gone(run) or (run.status in _WAITING and never_began(record, now)),
                    worked=has_worked(run),
                    since=record.start_time or _launched(record),
                    window=window_of(run.tags),
                )
            )
    return active, ended


def _launched(record: dg.RunRecord) -> float:
    """When a run was launched that has not begun, or queued, seconds since the epoch."""
    has_left_queue = record.dagster_run.status not in _WAITING
    return (record.update_timestamp if has_left_queue else record.create_timestamp).timestamp()


def sync_facts(
    context: dg.SensorEvaluationContext,
    pipeline: Pipeline,
    tags: Mapping[str, str],
    look: tuple[float, float],
    nothing_to_do: str,
    instances: Mapping[str, Presence],
    heartbeats: Mapping[str, int] = MappingProxyType({}),
) -> SyncFacts:
    """The facts of a tick, with the runs from Dagster.

    Args:
        context: Context of the tick.
        pipeline: The pipeline.
        tags: Tags of the runs.
        look: Begin and end of the observation of the clusters, seconds since the epoch.
        nothing_to_do: Why no run is needed; empty if one is.
        instances: Continuous instances, or mappers, by name.
        heartbeats: Offset of the last heartbeat of each run that starts, by run id.
    """
    active, ended = sync_runs(context.instance, tags, look[1])
    return SyncFacts(
        looked=look[0],
        now=look[1],
        switched_on=context.last_sensor_start_time or 0.0,
        window=pipeline.sync.window.total_seconds(),
        nothing_to_do=nothing_to_do,
        active=tuple(active),
        ended=tuple(ended),
        instances=dict(instances),
        heartbeats={run.run_id: heartbeats[run.run_id] for run in active if run.run_id in heartbeats},
        heartbeat_timeout=heartbeat_timeout_seconds(pipeline),
    )


def report_dead(instance: dg.DagsterInstance, run_ids: Iterable[str]) -> None:
    """Reports dead runs as failed, or as canceled, because Dagster's default launcher does not watch its processes.

    A run that was terminated by hand must not look failed: the next tick would start another one.
    """
    for run_id in run_ids:
        run = instance.get_run_by_id(run_id)
        if run is not None and not run.is_finished:
            is_terminated = run.status is dg.DagsterRunStatus.CANCELING
            report = instance.report_run_canceled if is_terminated else instance.report_run_failed
            report(
                run,
                "the process of this run has ended without a word: it is not on this machine any more, or has written "
                "no heartbeat to the assignment topic for too long",
            )
