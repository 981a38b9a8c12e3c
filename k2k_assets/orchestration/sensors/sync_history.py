"""The runs of a job that stay until the next one takes over, as Dagster's instance knows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import dagster as dg

from k2k_assets.orchestration.sensors.sync_decision import ActiveRun, EndedRun

_WAITING = (dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED)
_ENDED: Mapping[dg.DagsterRunStatus, Literal["success", "failure", "canceled"]] = {
    dg.DagsterRunStatus.SUCCESS: "success",
    dg.DagsterRunStatus.FAILURE: "failure",
    dg.DagsterRunStatus.CANCELED: "canceled",
}
# Enough to tell how often in a row runs have failed; more would wait no longer. They are never deleted.
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
            active.append(ActiveRun(run_id=run.run_id, waits=waits, ends=ends, since=since))
    return active, ended


def report_dead(instance: dg.DagsterInstance, run_ids: Iterable[str]) -> None:
    """Reports runs as failed: Dagster's default launcher does not watch the processes that it has started."""
    for run_id in run_ids:
        run = instance.get_run_by_id(run_id)
        if run is not None and not run.is_finished:
            instance.report_run_failed(
                run, "the process of this run is gone: it has written no heartbeat to the assignment topic for too long"
            )
