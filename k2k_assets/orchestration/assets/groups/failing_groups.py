"""Consumer groups that cannot be read or committed, poll after poll. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# Shorter failures are usual: a coordinator moves, or somebody commits at the same moment.
SETTLE_SECONDS = 30.0


@dataclass(slots=True)
class FailingGroups:
    """Reports each group once when it has failed for a while, and once when it succeeds again."""

    _since: dict[str, float] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    def take(self, failed: Mapping[str, str], now: float) -> tuple[dict[str, str], list[str]]:
        """Adds a poll.

        Args:
            failed: Its failed groups, each with the reason.
            now: Monotonic seconds.

        Returns:
            Groups to report as failing, each with the reason, and groups that succeed again.
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
