"""Decides whether to request a run that updates the offset mappings. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from k2k_assets.coordination.liveness import LastSign
from k2k_assets.orchestration.sensors.next_run_decision import back_off

Positions = Sequence[int | None]
"""The position of each partition of a topic; None where there is none."""
SOON_SECONDS = 60.0
"""The index learns of new partitions after so many seconds, or after `index.interval` if that is shorter."""


class MappingsFacts(BaseModel):
    """The facts of a tick.

    Attributes:
        now: Seconds since the epoch.
        behind: Whether the index is behind the committed positions.
        unproven: Whether a check on the mappings has no verdict or a bad one, so that groups are held back.
        lacks: Whether partitions are copied that the index does not know yet: Dagster shows it as unsynced.
        interval: `index.interval` in seconds.
        running: Id of a run in progress that updates the index; None if there is none.
        last_run: Id of the newest such run of the mappings job.
        last_ended: End of that run, seconds since the epoch.
        last_good: Whether it succeeded.
        failures: Number of runs in a row that have failed, up to that one.
    """

    model_config = ConfigDict(frozen=True)

    now: float
    behind: bool
    unproven: bool = False
    lacks: bool = False
    interval: float
    running: str | None = None
    last_run: str | None = None
    last_ended: float | None = None
    last_good: bool = False
    failures: int = 0


def decide_mappings(facts: MappingsFacts) -> str | None:
    """The key of the run to request; None to request none."""
    if not (facts.behind or facts.unproven) or facts.running:
        return None
    if facts.last_ended is not None and 0 <= facts.now - facts.last_ended < _pause(facts):
        return None
    return f"mappings-after-{facts.last_run or 'none'}"


def _pause(facts: MappingsFacts) -> float:
    """Seconds from the end of a run to the next one."""
    if facts.failures:
        # Without its verdict the groups are held back.
        return min(facts.interval, back_off(facts.failures))
    # What is new does not wait for the interval, which only bounds how much has to be read from the mapping topic.
    return min(facts.interval, SOON_SECONDS) if facts.lacks and facts.last_good else facts.interval


def lacks_partitions(mappings: Mapping[str, Positions], positions: Mapping[str, Positions]) -> bool:
    """Whether partitions are copied that an index does not know, though it knows others.

    Args:
        mappings: Position of each partition in the index, by topic.
        positions: Committed position of each partition, by topic.
    """
    known, copied = _present(mappings), _present(positions)
    return bool(known) and not copied <= known


def _present(positions: Mapping[str, Positions]) -> set[tuple[str, int]]:
    return {(topic, n) for topic, found in positions.items() for n, at in enumerate(found) if at is not None}


def silent_runs(heard: Mapping[str, LastSign], looked: float, timeout: float) -> set[str]:
    """Runs in progress whose process is gone: they have written no heartbeat for long.

    Args:
        heard: The last sign of life of each run in progress.
        looked: Begin of the observation, seconds since the epoch.
        timeout: Seconds of silence after which a run is dead.
    """
    return {run for run, last in heard.items() if not last.is_alive(looked, timeout)}
