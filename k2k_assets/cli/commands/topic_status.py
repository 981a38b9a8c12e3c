"""Turns the engine's reports about partitions into a status of each topic. Pure, except for the clock."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from k2k_assets.core.stops.reason import render
from k2k_assets.core.topic_partition import by_topic

if TYPE_CHECKING:
    from k2k_assets.control.pause_records import Pause
    from k2k_assets.replication.driver.progress import PartitionProgress, Progress

# Rates are averages over this many seconds: shorter ones vary too much, longer ones react too late.
_RATE_SECONDS = 10.0
# An open transaction is ordinary for a while.
_HELD_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """How far one source topic is.

    Attributes:
        topic: The source topic.
        position: Next source offsets to copy, summed over its partitions.
        end: `Pipeline.readable_end`, summed over its partitions; the position where it is not known.
        records: Records copied by this run.
        lag: Source offsets between position and end.
        rate: Records per second in the last seconds.
        eta: Seconds until caught up at that rate; `None` if nothing moves or nothing is left.
        notes: Remarks that need attention.
        stopped: Whether a partition of it is stopped.
    """

    topic: str
    position: int
    end: int
    records: int
    lag: int
    rate: float
    eta: float | None
    notes: tuple[str, ...]
    stopped: bool

    @property
    def state(self) -> str:
        """The remarks that need attention, or one word."""
        return "; ".join(self.notes) or ("copying" if self.lag else "caught up")


class StatusReader:
    """Turns each progress report into a status of every topic; remembers reports to compute rates.

    Args:
        clock: Monotonic seconds.
        now: Seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, now: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._now = now
        self._samples: deque[tuple[float, dict[str, int]]] = deque()

    def read(self, progress: Progress) -> list[TopicStatus]:
        """The topics' statuses, sorted by name."""
        topics = by_topic(progress.partitions)
        records = {topic: sum(p.records for p in partitions.values()) for topic, partitions in topics.items()}
        seconds, before = self._sample(progress.started, records)
        return [
            self._status(
                topic, partitions, (records[topic] - before.get(topic, 0)) / seconds, progress.paused.get(topic)
            )
            for topic, partitions in topics.items()
        ]

    def _sample(self, started: float, records: dict[str, int]) -> tuple[float, dict[str, int]]:
        """Remembers this report; returns the seconds that the rate covers, and the counts at their begin."""
        clock = self._clock()
        if not self._samples:
            self._samples.append((started, {}))
        if len(self._samples) == 2 and not any(self._samples[1][1].values()):
            # Nothing had moved until the last report: Spark was starting, so that time must not lower the rate.
            self._samples.popleft()
        self._samples.append((clock, records))
        while len(self._samples) > 2 and self._samples[1][0] <= clock - _RATE_SECONDS:
            self._samples.popleft()
        begin, before = self._samples[0]
        return max(clock - begin, 0.001), before

    def _status(
        self, topic: str, partitions: dict[int, PartitionProgress], rate: float, paused: Pause | None
    ) -> TopicStatus:
        lag = sum(p.lag for p in partitions.values())
        return TopicStatus(
            topic=topic,
            position=sum(p.position for p in partitions.values()),
            end=sum(p.readable_end if p.readable_end >= 0 else p.position for p in partitions.values()),
            records=sum(p.records for p in partitions.values()),
            lag=lag,
            rate=max(0.0, rate),
            eta=lag / rate if lag and rate >= 0.5 else None,
            notes=(*self._notes(partitions), *([str(paused)] if paused else [])),
            stopped=any(p.stopped for p in partitions.values()),
        )

    def _notes(self, partitions: dict[int, PartitionProgress]) -> Iterable[str]:
        yield from dict.fromkeys(f"stopped: {render(p.stopped)}" for p in partitions.values() if p.stopped)
        held = {number: p.held_since for number, p in partitions.items() if p.held_since is not None}
        ages = {number: self._clock() - since for number, since in held.items()}
        long = {number: age for number, age in ages.items() if age >= _HELD_SECONDS}
        if long:
            since = datetime.fromtimestamp(self._now() - max(long.values())).strftime("%H:%M:%S")
            numbers = ", ".join(map(str, long))
            yield f"held by an open transaction since {since} (partition {numbers})"
        if silent := [number for number, p in partitions.items() if not (p.is_end_known or p.stopped)]:
            yield f"the source does not tell its end (partition {', '.join(map(str, silent))})"
