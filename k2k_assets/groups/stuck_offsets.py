"""Which groups of the target have had offsets pending in transactions for long. Pure.

A broker that restarts may forget the marker that ends a transaction, and what the transaction has sent for a group is
pending for ever then: nobody gets the group's offsets, and the mapper cannot commit for it. If it was a transaction of
the mapper itself, the marker of its next one ends it (`Shard.release`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable

STUCK_SECONDS = 60.0
"""Longer than a transaction of the mapper takes; an application's own may be so long, and are left alone."""


class StuckOffsets:
    """Remembers since when the offsets of groups are pending.

    Args:
        clock: Tells the time, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}

    def overdue(self, pending: Collection[str]) -> list[str]:
        """The groups whose offsets are pending for `STUCK_SECONDS` by now, the longest waiting first.

        Args:
            pending: All groups with pending offsets at this look.
        """
        now = self._clock()
        self._since = {group: self._since.get(group, now) for group in pending}
        found = [group for group, since in self._since.items() if now - since >= STUCK_SECONDS]
        return sorted(found, key=lambda group: self._since[group])

    def note_tried(self, groups: Iterable[str]) -> None:
        """Lets groups be overdue again only after another `STUCK_SECONDS`; those not tried yet stay overdue."""
        self._since.update(dict.fromkeys(groups, self._clock()))
