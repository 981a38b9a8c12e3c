"""Consumer groups that cannot be read or committed, poll after poll. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# A coordinator that moves, or somebody who commits at the same moment, is no failure.
SETTLE_SECONDS = 30.0


@dataclass(slots=True)
class FailingGroups:
    """Tells of each group once that it fails, when it has failed for a while, and once that it is well again."""

    _since: dict[str, float] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    def take(self, failed: Mapping[str, str], now: float) -> tuple[dict[str, str], list[str]]:
        """Takes in a poll.

        Args:
            failed: Its failed groups, each with the reason.
            now: Seconds that only rise.

        Returns:
            The groups that are to be told as failing, each with the reason, and those that are well again.
        """
        self._since = {group: self._since.get(group, now) for group in failed}
        new = {
            group: why
            for group, why in failed.items()
            if group not in self._told and now >= self._since[group] + SETTLE_SECONDS
        }
        well = sorted(self._told - failed.keys())
        self._told = (self._told & failed.keys()) | new.keys()
        return new, well
