"""Decides whether to request a run that updates the offset mappings. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from k2k_assets.coordination.liveness import LastSign


class MappingsFacts(BaseModel):
    """The facts of a tick.

    Attributes:
        now: Seconds since the epoch.
        behind: Whether the index is behind the committed positions.
        unproven: Whether a check on the mappings has no verdict or a bad one, so that groups are held back.
        interval: `index.interval` in seconds.
        running: Id of a run in progress that updates the index; None if there is none.
        last_run: Id of the newest such run of the mappings job.
        last_ended: End of that run, seconds since the epoch.
    """

    model_config = ConfigDict(frozen=True)

    now: float
    behind: bool
    unproven: bool = False
    interval: float
    running: str | None = None
    last_run: str | None = None
    last_ended: float | None = None


def decide_mappings(facts: MappingsFacts) -> str | None:
    """The key of the run to request; None to request none."""
    if not (facts.behind or facts.unproven) or facts.running:
        return None
    if facts.last_ended is not None and 0 <= facts.now - facts.last_ended < facts.interval:
        return None
    return f"mappings-after-{facts.last_run or 'none'}"


def silent_runs(
    started: Mapping[str, float], heard: Mapping[str, LastSign], looked: float, now: float, timeout: float
) -> set[str]:
    """Runs in progress whose process is gone: they have written no heartbeat for long.

    Args:
        started: When each run in progress began, seconds since the epoch.
        heard: The last sign of life of each run.
        looked: Begin of the observation, seconds since the epoch.
        now: Its end.
        timeout: Seconds of silence after which a run is dead.
    """
    return {
        run
        for run, since in started.items()
        if now - since >= timeout and not (run in heard and heard[run].is_alive(looked, timeout))
    }
