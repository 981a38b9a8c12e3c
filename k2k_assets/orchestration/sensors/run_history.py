"""Reads runs from Dagster's instance: runs in progress, and how the last one ended."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import dagster as dg

from k2k_assets.core.clock import SYSTEM_CLOCK, Clock
from k2k_assets.orchestration.runs.run_process import is_gone

_IN_PROGRESS = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
# Most runs that are searched for one that was launched from the asset graph: these have no tags of ours, so runs of all
# pipelines are among those that are searched.
_RUNS_LOOKED_AT = 50
# Longest time of a run that does not copy continuously. If it lives after all, only one run at a time builds an index.
LONGEST_SECONDS = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class LastRun:
    """The newest run with some tags.

    Attributes:
        run_id: Its id; None if there is none.
        ended: End of the run, seconds since the epoch; None if it has not ended.
        good: Whether it succeeded.
    """

    run_id: str | None = None
    ended: float | None = None
    good: bool = False


def running(
    instance: dg.DagsterInstance,
    tags: dict[str, str],
    keys: Iterable[dg.AssetKey],
    clock: Clock = SYSTEM_CLOCK,
    dead: Collection[str] = (),
) -> str | None:
    """A run in progress that materializes one of some assets, also one without tags from the asset graph.

    Dagster's default launcher does not watch its processes, so the record of a killed run stays in progress. Therefore
    a run in progress for very long does not count.

    Args:
        instance: Dagster's instance.
        tags: Tags of runs that always materialize them.
        keys: The assets.
        clock: Clock for the age of runs.
        dead: Runs that do not count.

    Returns:
        Id of the run; None if there is none.
    """
    wanted = frozenset(keys)
    # By tags first: beside many other pipelines it may not be among the newest ones of the instance.
    tagged = instance.get_run_records(dg.RunsFilter(statuses=_IN_PROGRESS, tags=tags), limit=_RUNS_LOOKED_AT)
    newest = instance.get_run_records(dg.RunsFilter(statuses=_IN_PROGRESS), limit=_RUNS_LOOKED_AT)
    launched = (record for record in newest if not wanted.isdisjoint(record.dagster_run.asset_selection or ()))
    for record in (*tagged, *launched):
        is_stale = record.start_time and clock.time() - record.start_time > LONGEST_SECONDS
        if record.dagster_run.run_id not in dead and not is_stale:
            return record.dagster_run.run_id
    return None


def started(instance: dg.DagsterInstance, tags: dict[str, str]) -> tuple[dict[str, float], set[str]]:
    """The runs with some tags whose process has begun, and that have not ended for Dagster.

    Returns:
        Since when each runs, in seconds since the epoch; and those whose process has certainly ended.
    """
    found = instance.get_run_records(
        dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED], tags=tags), limit=_RUNS_LOOKED_AT
    )
    begun = {each.dagster_run.run_id: each.start_time for each in found if each.start_time is not None}
    return begun, {each.dagster_run.run_id for each in found if is_gone(each.dagster_run)}


def last_run(instance: dg.DagsterInstance, tags: dict[str, str]) -> LastRun:
    """The newest run with these tags."""
    newest = instance.get_run_records(dg.RunsFilter(tags=tags), limit=1)
    if not newest:
        return LastRun()
    run = newest[0].dagster_run
    return LastRun(run.run_id, newest[0].end_time, run.status is dg.DagsterRunStatus.SUCCESS)
