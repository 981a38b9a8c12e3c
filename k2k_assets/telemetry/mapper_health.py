"""Whether an offset mapper lives, polls, and knows where all groups belong."""

from __future__ import annotations

from typing import NamedTuple

from k2k_assets.core.clock import SYSTEM_CLOCK, Clock
from k2k_assets.core.errors import K2KError
from k2k_assets.groups.decide import CommitDecision
from k2k_assets.groups.report import PollResult
from k2k_assets.telemetry.group_states import FAILED, counted, group_states

# A poll that reads thousands of groups, or waits out a broker that restarts, takes a while.
SILENT_SECONDS = 60.0
# Some groups say enough: with thousands of them nobody reads the rest.
_MOST_NAMED = 20
_ATTENTION = (FAILED, CommitDecision.UNKNOWN.value)


class MapperHealth(NamedTuple):
    """The health of an offset mapper.

    Attributes:
        ready: Whether it has polled lately.
        why_not: Why it is not ready; empty if it is.
        groups: Number of groups in each state that some have.
        attention: Groups that could not be read or committed, or whose position is unknown, with the state; at most
            twenty.
    """

    ready: bool
    why_not: str
    groups: dict[str, int]
    attention: dict[str, str]

    @property
    def is_well(self) -> bool:
        """Whether it is ready, and no group needs attention."""
        return self.ready and not self.attention


class MapperWatch:
    """Follows the polls of a mapper.

    Args:
        interval: `groups.pollInterval` in seconds.
        clock: Tells how old the last poll is.
    """

    def __init__(self, interval: float, clock: Clock = SYSTEM_CLOCK) -> None:
        self._longest_silence = SILENT_SECONDS + interval
        self._clock = clock
        self._seen: tuple[float, PollResult] | None = None
        self._trouble = ""

    def polled(self, result: PollResult) -> None:
        """Takes in a poll; in the mapper's thread."""
        self._seen, self._trouble = (self._clock.monotonic(), result), ""

    def troubled(self, error: K2KError) -> None:
        """Takes in an error that the mapper waits out; in the mapper's thread."""
        self._trouble = str(error)

    def health(self) -> MapperHealth:
        """The health now."""
        if self._seen is None:
            return MapperHealth(False, self._trouble or "it has not read the mappings to their end yet", {}, {})
        at, result = self._seen
        silent = self._clock.monotonic() - at
        why_not = ""
        if silent > self._longest_silence:
            why_not = f"no poll has succeeded for {silent:.0f} s{f': {self._trouble}' if self._trouble else ''}"
        states = sorted(group_states(result).items())
        attention = dict([each for each in states if each[1] in _ATTENTION][:_MOST_NAMED])
        groups = {state: count for state, count in counted(result).items() if count}
        return MapperHealth(not why_not, why_not, groups, attention)
