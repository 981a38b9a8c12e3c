"""Whether an instance lives, is at work, and keeps up."""

from __future__ import annotations

from typing import NamedTuple

from k2k_assets.core.clock import SYSTEM_CLOCK, Clock
from k2k_assets.replication.driver.events import Ended, Event, ProgressRead
from k2k_assets.replication.driver.progress import OLD_SECONDS, Progress

# The driver asks the source for its ends about once a second.
SILENT_SECONDS = 60.0
# An idle target is asked each half minute; one question may be lost.
_TARGET_SILENT_SECONDS = 90.0


class Health(NamedTuple):
    """The health of an instance.

    Attributes:
        ready: Whether it copies: it has read its progress within the last minute, and knows the end of a partition.
        why_not: Why it is not ready; empty if it is.
        lag: Source offsets that could be copied now.
        lagging: Topics with such offsets, by name.
        stopped: Topics with a stopped partition, with the code of the stop.
    """

    ready: bool
    why_not: str
    lag: int
    lagging: dict[str, int]
    stopped: dict[str, str]

    @property
    def is_well(self) -> bool:
        """Whether it is ready and no topic is stopped."""
        return self.ready and not self.stopped


class HealthWatch:
    """Follows the events of a replication.

    Args:
        clock: Tells how old the last news is.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._seen: tuple[float, Progress] | None = None
        self._has_ended = False

    def listen(self, event: Event) -> None:
        """Takes in an event; in the driver's thread."""
        if isinstance(event, ProgressRead):
            self._seen = self._clock.monotonic(), event.progress
        elif isinstance(event, Ended):
            self._has_ended = True

    def health(self) -> Health:
        """The health now."""
        lagging: dict[str, int] = {}
        stopped: dict[str, str] = {}
        at, progress = self._seen or (0.0, Progress({}, 0.0))
        for tp, each in progress.partitions.items():
            if each.lag:
                lagging[tp.topic] = lagging.get(tp.topic, 0) + each.lag
            if each.stopped is not None:
                stopped.setdefault(tp.topic, each.stopped.code)
        why_not = self._why_not(at, progress)
        return Health(not why_not, why_not, sum(lagging.values()), dict(sorted(lagging.items())), stopped)

    def _why_not(self, at: float, progress: Progress) -> str:
        if self._seen is None:
            return "it has not begun to copy yet"
        if self._has_ended:
            return "it has ended"
        if (silent := self._clock.monotonic() - at) > SILENT_SECONDS:
            return f"it has read no progress for {silent:.0f} s"
        if (silent := progress.silence) > _TARGET_SILENT_SECONDS:
            return f"it has read no progress for {silent:.0f} s: the target does not answer"
        copied = [each for each in progress.partitions.values() if each.stopped is None]
        if copied and not any(each.is_end_known for each in copied):
            return f"the source has told the end of no partition within the last {OLD_SECONDS:.0f} s"
        return ""
