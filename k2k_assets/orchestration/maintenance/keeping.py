"""How long history is kept, and which records belong to our pipelines."""

from __future__ import annotations

import math
import os
from collections.abc import Collection

import dagster as dg

from k2k_assets.core.errors import InvalidVariable
from k2k_assets.orchestration.names import RUN_TAGS, AssetNames

KEEP_VARIABLE = "K2K_KEEP_RUNS_DAYS"
DEFAULT_DAYS = 7.0


def keep_days() -> float:
    """Days for which runs and events are kept, from the environment.

    Raises:
        InvalidVariable: The variable is not a number of days.
    """
    said = os.environ.get(KEEP_VARIABLE, "").strip()
    if not said:
        return DEFAULT_DAYS
    try:
        days = float(said)
    except ValueError:
        days = math.nan
    if not 0 < days < math.inf:
        raise InvalidVariable(
            f"{KEEP_VARIABLE}={said!r} is not a number of days above 0, such as 7. To keep everything, switch the "
            "schedule off."
        )
    return days


class Ours:
    """Selects the records of some pipelines in a Dagster instance, which may also have others' jobs and assets.

    Args:
        pipelines: Names of the pipelines.
        shown: The assets that the code location shows.
    """

    def __init__(self, pipelines: Collection[AssetNames], shown: Collection[dg.AssetKey] = ()) -> None:
        self._pipelines = tuple(pipelines)
        self._shown = frozenset(shown)

    @property
    def run_tags(self) -> list[tuple[str, str]]:
        """Key and value of the tags by which runs of our jobs are found."""
        return [(key, names.pipeline) for names in self._pipelines for key in RUN_TAGS]

    def owns(self, key: dg.AssetKey) -> bool:
        """Whether an asset belongs to one of the pipelines, also one that is not shown any more."""
        return any(names.owns(key) for names in self._pipelines)

    def is_gone(self, key: dg.AssetKey) -> bool:
        """Whether an asset is a consumer group that is not shown any more.

        These are many where programs make a group for each of their starts. Topics are few, and the copy of one that is
        gone is still on the target.
        """
        return key not in self._shown and any(names.owns_group(key) for names in self._pipelines)

    def keeps_newest(self, key: dg.AssetKey) -> bool:
        """Whether the newest records of an asset stay, however old they are."""
        return self.owns(key) and not self.is_gone(key)

    def owns_selection(self, run: dg.DagsterRun) -> bool:
        """Whether a run was launched from the asset graph, only for assets and checks of the pipelines."""
        checked = {check.asset_key for check in run.asset_check_selection or ()}
        selected = {*(run.asset_selection or ()), *checked}
        return bool(selected) and all(map(self.owns, selected))
