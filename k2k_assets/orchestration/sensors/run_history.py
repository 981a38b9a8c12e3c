"""What Dagster's instance knows of runs: which are in progress, how the last one ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import dagster as dg

from k2k_assets.core.clock import SYSTEM_CLOCK, Clock

_IN_PROGRESS = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
# Runs of the whole code location that are looked through.
_RUNS_LOOKED_AT = 50
# Of a run that copies nothing for good. Should such a one live after all: an index is built by one at a time.
LONGEST_SECONDS = 6 * 3600.0


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
    instance: dg.DagsterInstance, tags: dict[str, str], keys: Iterable[dg.AssetKey], clock: Clock = SYSTEM_CLOCK
) -> str | None:
    """A run in progress that makes one of some assets, also one without tags that was started from the asset graph.

    Nobody ends the record of a run whose process was killed: Dagster's default launcher does not watch its processes.
    So one that has been at it for very long holds up nothing any more.

    Args:
        instance: Dagster's.
        tags: Runs with these make them, whatever they select.
        keys: The assets.
        clock: Tells how long it has been at it.

    Returns:
        Its id; None if there is none.
    """
    wanted = frozenset(keys)
    for record in instance.get_run_records(dg.RunsFilter(statuses=_IN_PROGRESS), limit=_RUNS_LOOKED_AT):
        run = record.dagster_run
        is_one = _has(run, tags) or not wanted.isdisjoint(run.asset_selection or ())
        if is_one and not (record.start_time and clock.time() - record.start_time > LONGEST_SECONDS):
            return run.run_id
    return None


def last_run(instance: dg.DagsterInstance, tags: dict[str, str]) -> LastRun:
    """The newest run with these tags."""
    newest = instance.get_run_records(dg.RunsFilter(tags=tags), limit=1)
    if not newest:
        return LastRun()
    run = newest[0].dagster_run
    return LastRun(run.run_id, newest[0].end_time, run.status is dg.DagsterRunStatus.SUCCESS)


def _has(run: dg.DagsterRun, tags: dict[str, str]) -> bool:
    return bool(tags) and all(run.tags.get(key) == value for key, value in tags.items())
