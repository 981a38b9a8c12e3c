"""What Dagster's instance knows of runs and checks: which are in progress, how the last one ended."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import dagster as dg

_IN_PROGRESS = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
# Runs of the whole code location that are looked through.
_RUNS_LOOKED_AT = 50
_LONG_HOURS = 2.0
# Runs of one check that are looked through for a verdict: those in progress have none yet.
_VERDICTS_LOOKED_AT = 10


@dataclass(frozen=True, slots=True)
class LastRun:
    """The newest run with some tags.

    Attributes:
        run_id: Its id; None if there is none.
        ended: When it ended, seconds since the epoch; None if it did not.
        good: Whether it ended well.
    """

    run_id: str | None = None
    ended: float | None = None
    good: bool = False


def running(
    instance: dg.DagsterInstance, tags: dict[str, str], keys: Iterable[dg.AssetKey], besides: dict[str, str]
) -> str | None:
    """A run in progress that makes one of some assets, also one without tags that was started from the asset graph.

    Args:
        instance: Dagster's.
        tags: Runs with these make them, whatever they select.
        keys: The assets.
        besides: Runs with these tags make them only if they select one.

    Returns:
        Its id; of one that has been at it for long, with what to do should it be dead. None if there is none.
    """
    wanted = frozenset(keys)
    for record in instance.get_run_records(dg.RunsFilter(statuses=_IN_PROGRESS), limit=_RUNS_LOOKED_AT):
        run = record.dagster_run
        selected = run.asset_selection
        if _has(run, tags) or not wanted.isdisjoint(selected or ()) or (_has(run, besides) and selected is None):
            return _in_words(record)
    return None


def last_run(instance: dg.DagsterInstance, tags: dict[str, str]) -> LastRun:
    """The newest run with these tags."""
    newest = instance.get_run_records(dg.RunsFilter(tags=tags), limit=1)
    if not newest:
        return LastRun()
    run = newest[0].dagster_run
    return LastRun(run.run_id, newest[0].end_time, run.status is dg.DagsterRunStatus.SUCCESS)


def made_by(instance: dg.DagsterInstance, run_id: str) -> frozenset[dg.AssetKey]:
    """The assets that a run has materialized so far, also one that failed in the end."""
    made = instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
    keys = (entry.dagster_event.asset_key for entry in made if entry.dagster_event)
    return frozenset(key for key in keys if key)


def failed_checks(instance: dg.DagsterInstance, checks: Iterable[dg.AssetCheckKey]) -> list[str] | None:
    """Names of the checks whose last verdict is a failure.

    Returns:
        None if one of them never gave a verdict, or ended without one the last time: it crashed, or was not run because
        another one had failed.
    """
    # Before the history is read: a run that ends meanwhile may have given its verdict after that.
    under_way = {r.run_id for r in instance.get_runs(dg.RunsFilter(statuses=_IN_PROGRESS), limit=_RUNS_LOOKED_AT)}
    failed = []
    for key in checks:
        verdict = _last_verdict(instance, key, under_way)
        if verdict is None:
            return None
        if not verdict.passed and verdict.severity is dg.AssetCheckSeverity.ERROR:
            failed.append(key.name)
    return failed


def _last_verdict(
    instance: dg.DagsterInstance, key: dg.AssetCheckKey, under_way: Collection[str]
) -> dg.AssetCheckEvaluation | None:
    for record in instance.event_log_storage.get_asset_check_execution_history(key, limit=_VERDICTS_LOOKED_AT):
        if isinstance(record.evaluation, dg.AssetCheckEvaluation):
            return record.evaluation
        if record.run_id not in under_way and not _is_in_progress(instance, record.run_id):
            return None
    return None


def _is_in_progress(instance: dg.DagsterInstance, run_id: str) -> bool:
    run = instance.get_run_by_id(run_id)
    return run is not None and run.status in _IN_PROGRESS


def _in_words(record: dg.RunRecord) -> str:
    """Nobody ends the record of a run whose machine was lost, unless Dagster is told to look after its runs."""
    hours = (time.time() - record.create_timestamp.timestamp()) / 3600
    run_id = record.dagster_run.run_id
    if hours < _LONG_HOURS:
        return run_id
    return (
        f"{run_id} (since {hours:.0f} h; if its process is gone, end it in Dagster's UI, or switch run_monitoring on "
        "in dagster.yaml)"
    )


def _has(run: dg.DagsterRun, tags: dict[str, str]) -> bool:
    return bool(tags) and all(run.tags.get(key) == value for key, value in tags.items())
