"""Reads runs from Dagster's instance: runs in progress, and how the last one ended."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import takewhile

import dagster as dg

from k2k_assets.core.clock import SYSTEM_CLOCK, Clock
from k2k_assets.orchestration.runs.run_process import is_gone
from k2k_assets.orchestration.sensors.next_run_decision import START_SECONDS

_IN_PROGRESS = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
# A run may also be terminated before its process has begun.
_BEFORE_BEGIN = (
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.CANCELING,
)
# Most runs that are searched for one that was launched from the asset graph: these have no tags of ours, so runs of all
# pipelines are among those that are searched.
_RUNS_SEARCHED = 50
# Enough to count consecutive failures up to the longest wait. The maintenance job keeps these runs.
RUNS_LOOKED_AT = 10
# Longest time of a run that does not copy continuously. If it lives after all, only one run at a time builds an index.
LONGEST_SECONDS = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class LastRun:
    """The newest run with some tags.

    Attributes:
        run_id: Its id; None if there is none.
        ended: End of the run, seconds since the epoch; None if it has not ended.
        good: Whether it succeeded.
        failures: Number of runs in a row that have failed, up to this one.
    """

    run_id: str | None = None
    ended: float | None = None
    good: bool = False
    failures: int = 0


def running(
    instance: dg.DagsterInstance,
    tags: dict[str, str],
    keys: Iterable[dg.AssetKey],
    clock: Clock = SYSTEM_CLOCK,
    dead: Collection[str] = (),
) -> str | None:
    """A run in progress that materializes one of some assets, also one without tags from the asset graph.

    Dagster's default launcher does not watch its processes, so the record of a killed run stays in progress. Therefore
    a run in progress for very long does not count, nor does one that should have begun long ago.

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
    tagged = instance.get_run_records(dg.RunsFilter(statuses=_IN_PROGRESS, tags=tags), limit=_RUNS_SEARCHED)
    newest = instance.get_run_records(dg.RunsFilter(statuses=_IN_PROGRESS), limit=_RUNS_SEARCHED)
    launched = (record for record in newest if not wanted.isdisjoint(record.dagster_run.asset_selection or ()))
    now = clock.time()
    for record in (*tagged, *launched):
        is_stale = record.start_time and now - record.start_time > LONGEST_SECONDS
        if record.dagster_run.run_id not in dead and not is_stale and not never_began(record, now):
            return record.dagster_run.run_id
    return None


def started(instance: dg.DagsterInstance, tags: dict[str, str], now: float) -> tuple[set[str], set[str]]:
    """The runs with some tags whose process has begun, and those that are in progress for Dagster alone.

    Args:
        instance: Dagster's instance.
        tags: Tags of the runs.
        now: Seconds since the epoch.

    Returns:
        Their ids; and those whose process has certainly ended, or never began.
    """
    found = instance.get_run_records(dg.RunsFilter(statuses=_IN_PROGRESS, tags=tags), limit=_RUNS_SEARCHED)
    begun = {each.dagster_run.run_id for each in found if each.dagster_run.status is dg.DagsterRunStatus.STARTED}
    gone = {each.dagster_run.run_id for each in found if is_gone(each.dagster_run) or never_began(each, now)}
    return begun, gone


def never_began(record: dg.RunRecord, now: float) -> bool:
    """Whether a run is in no queue, and was launched so long ago that its process should have begun.

    Whoever was to launch it was killed, or its process was, before it could say so. Dagster finds that only where its
    run monitoring is on. Should it begin after all, and was reported as failed, Dagster does not execute it.

    Args:
        record: A run in progress.
        now: Seconds since the epoch.
    """
    has_not_begun = record.dagster_run.status in _BEFORE_BEGIN and record.start_time is None
    return has_not_begun and now - record.update_timestamp.timestamp() >= START_SECONDS


def last_run(instance: dg.DagsterInstance, tags: dict[str, str], dead: Collection[str] = ()) -> LastRun:
    """The newest run with some tags.

    Args:
        instance: Dagster's instance.
        tags: Its tags.
        dead: Runs that count as failed, whatever Dagster knows of them.
    """
    newest = instance.get_run_records(dg.RunsFilter(tags=tags), limit=RUNS_LOOKED_AT)
    if not newest:
        return LastRun()
    run = newest[0].dagster_run
    has_failed = (
        each.dagster_run.status is dg.DagsterRunStatus.FAILURE or each.dagster_run.run_id in dead for each in newest
    )
    failures = sum(1 for _ in takewhile(bool, has_failed))
    return LastRun(run.run_id, newest[0].end_time, run.status is dg.DagsterRunStatus.SUCCESS, failures)
