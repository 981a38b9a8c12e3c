"""Decides whether to request a run that updates the offset mappings. Pure."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


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
