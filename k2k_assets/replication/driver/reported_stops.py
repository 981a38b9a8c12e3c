"""The partitions that the slots of one instance have stopped, and whether anybody has copied on since."""

from __future__ import annotations

from dataclasses import dataclass, field

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.driver.progress import ProgressReader


@dataclass(frozen=True, slots=True)
class _Stop:
    """A stop of a partition: the reason, the generation, and the newest commit record at that time."""

    reason: StopReason
    generation: int
    newest: CommitRecord | None


@dataclass(frozen=True, slots=True)
class ReportedStops:
    """Remembers the stops that slots have reported when they ended.

    Attributes:
        progress: Follows the commit topic.
    """

    progress: ProgressReader
    _stopped: dict[TopicPartition, _Stop] = field(default_factory=dict)

    def add(self, tp: TopicPartition, reason: StopReason, generation: int) -> bool:
        """Notes a stop.

        Args:
            tp: The source partition.
            reason: The stop reason.
            generation: The generation whose slot has stopped it.

        Returns:
            Whether nothing in the commit topic tells it, or tells that it was put right since.
        """
        newest, note = self.progress.newest.get(tp), self.progress.noted.get(tp)
        self._stopped[tp] = _Stop(reason, generation, newest)
        if newest is None:
            return note is None or note.generation != generation
        return newest.reason is None and newest.generation <= generation

    def would_stop_again(self) -> set[TopicPartition]:
        """Partitions that are stopped by the commit topic, or whose newest record there is that of when they were.

        A stop may be reported when it has been put right already: then its newest record is that of who did so.
        """
        newest = self.progress.newest
        recorded = {*self.progress.noted, *(tp for tp, record in newest.items() if record.reason)}
        own = ((tp, stop) for tp, stop in self._stopped.items() if not _is_put_right(stop))
        return recorded.union(tp for tp, stop in own if newest.get(tp) == stop.newest)

    def still_stopped(self) -> dict[TopicPartition, StopReason]:
        """Stopped partitions, without those that a newer generation or an override has continued since."""
        newest = self.progress.newest
        return {
            tp: stop.reason
            for tp, stop in self._stopped.items()
            if (record := newest.get(tp)) is None or record.reason or record.generation <= stop.generation
        }


def _is_put_right(stop: _Stop) -> bool:
    return stop.newest is not None and stop.newest.generation > stop.generation
