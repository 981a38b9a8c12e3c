"""Deletes the old history of some pipelines from a Dagster instance."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import dagster as dg
from dagster._core.definitions.assets.job.asset_job import IMPLICIT_ASSET_JOB_NAME
from dagster._core.storage.dagster_run import FINISHED_STATUSES
from dagster._core.storage.event_log import SqlEventLogStorage

from k2k_assets.core.errors import Refused
from k2k_assets.orchestration.maintenance.event_tables import EventTables
from k2k_assets.orchestration.maintenance.keeping import Ours
from k2k_assets.orchestration.names import MAINTENANCE_TAGS
from k2k_assets.orchestration.sensors.run_history import RUNS_LOOKED_AT

_PAGE = 200


class DeletedHistory(NamedTuple):
    """Numbers of deleted records.

    Attributes:
        runs: Runs, each with its events and its output.
        events: Events of assets without a run.
    """

    runs: int
    events: int


def delete_history(instance: dg.DagsterInstance, ours: Ours, before: float) -> DeletedHistory:
    """Deletes runs that ended, and events that happened, before some time.

    The newest events of each asset and check stay, with their runs, but not those of consumer groups that are not shown
    any more. The newest runs of each job stay, which sensors read, runs in progress with all their events, and
    everything of others.

    Args:
        instance: Dagster's instance.
        ours: Selects the records of the pipelines.
        before: Seconds since the epoch.

    Raises:
        Refused: The history is in a storage from which this cannot delete.
    """
    storage = instance.event_log_storage
    if not isinstance(storage, SqlEventLogStorage):
        raise Refused(
            f"Dagster keeps its history in a {type(storage).__name__}, which is neither SQLite nor PostgreSQL: nothing "
            "is deleted. Switch this schedule off, and delete old history by that storage's own means."
        )
    tables = EventTables(storage)
    newest = tables.newest(ours.keeps_newest)
    kept = {*newest.runs, *_newest_runs(instance, ours)}
    old = [run_id for run_id in _old_runs(instance, ours, before) if run_id not in kept]
    tables.delete_evaluations(set(old), ours.owns, before, newest)
    for run_id in old:
        _delete_run(instance, tables, run_id)
    events = tables.delete_reports(ours.owns, before, newest)
    tables.forget_assets(ours.is_gone, before)
    return DeletedHistory(len(old), events)


def _newest_runs(instance: dg.DagsterInstance, ours: Ours) -> Iterator[str]:
    for key, value in ours.run_tags:
        for run in instance.get_runs(dg.RunsFilter(tags={key: value}), limit=RUNS_LOOKED_AT):
            yield run.run_id


def _old_runs(instance: dg.DagsterInstance, ours: Ours, before: float) -> list[str]:
    """Ids of the runs of the pipelines that have ended before some time."""
    filters = [dg.RunsFilter(tags={key: value}) for key, value in [*ours.run_tags, *MAINTENANCE_TAGS.items()]]
    tagged = {record.dagster_run.run_id for one in filters for record in _ended(instance, one, before)}
    launched = _ended(instance, dg.RunsFilter(job_name=IMPLICIT_ASSET_JOB_NAME), before)
    return [*tagged, *(r.dagster_run.run_id for r in launched if ours.owns_selection(r.dagster_run))]


def _ended(instance: dg.DagsterInstance, runs: dg.RunsFilter, before: float) -> Iterator[dg.RunRecord]:
    wanted = dg.RunsFilter(
        job_name=runs.job_name,
        tags=runs.tags,
        statuses=FINISHED_STATUSES,
        created_before=datetime.fromtimestamp(before, UTC),
    )
    cursor = None
    while page := instance.get_run_records(wanted, limit=_PAGE, cursor=cursor):
        # A run that was terminated before it began has no end time.
        yield from (r for r in page if (r.end_time or r.update_timestamp.timestamp()) < before)
        cursor = page[-1].dagster_run.run_id


def _delete_run(instance: dg.DagsterInstance, tables: EventTables, run_id: str) -> None:
    """Deletes a run, its own record last, so that the rest of a partly deleted run is found again."""
    instance.compute_log_manager.delete_logs(prefix=[run_id])
    tables.delete_run(run_id)
    instance.run_storage.delete_run(run_id)
