"""Finds up to where the logs of the source are still those that were copied.

```
 copied           0 ... 39  40 ... 99          the newest commit record: position 100, leader epoch 0
 source, today    0 ... 39  40 ... 139         40 to 99 were lost in an unclean election; others were written since
```

The offsets tell nothing of it; leader epochs do (KIP-320). As long as the epoch at the end of a log is that of the last
record that was copied, the log has had no other leader, and nothing is asked. After an election the source's client
asks the leader whether it still has that record.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import K2KError
from k2k_assets.core.stops.reason import StopReason, render
from k2k_assets.core.stops.reasons.permissions import SourceReadDenied
from k2k_assets.core.stops.reasons.records import BatchUnreadable
from k2k_assets.core.stops.reasons.source_log import RecordsDeleted, SourceDiverged
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.cluster_offsets import LedOffsets
from k2k_assets.pipeline import Pipeline
from k2k_assets.translation.log_ends import NOT_KNOWN
from k2k_assets.transport.errors import Restart, SourceStopped
from k2k_assets.transport.factory import records_transport_of
from k2k_assets.transport.interface import Position

log = logging.getLogger("k2k.mapping")

# What cannot be asked in this time is not known for now; the next call asks again.
_SECONDS = 10.0
_AT_ONCE = 200
_BUFFER_BYTES = 256 * 1024
_WHOLE = 2**62


class CopyEnd(Protocol):
    """How far a partition is copied, as in `CommitRecord`."""

    @property
    def position(self) -> int:
        """Next source offset to copy."""
        ...

    @property
    def leader_epoch(self) -> int | None:
        """Leader epoch of the last record copied; None if unknown."""
        ...

    @property
    def epoch_end(self) -> int | None:
        """Offset after the last record copied, where `leader_epoch` holds; None if that is the position."""
        ...


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question to the leader of a partition: does its log have the record before `position`, of epoch `epoch`?"""

    epoch_today: int
    epoch: int
    position: int


class SourceLogs:
    """Up to where the logs of a source are those that were copied. Only one thread at a time may use it.

    Args:
        pipeline: The pipeline.
        source: Its source cluster.
    """

    def __init__(self, pipeline: Pipeline, source: Cluster) -> None:
        self._pipeline = pipeline
        self._source = source
        self._answers: dict[TopicPartition, tuple[_Asked, int]] = {}

    def ends(self, partitions: Iterable[TopicPartition], copied: Mapping[TopicPartition, CopyEnd]) -> LedOffsets:
        """The offset up to which each log is the one that was copied: its end, or where it was cut off since.

        Args:
            partitions: Partitions of the source.
            copied: How far each is copied: its newest commit record.

        Returns:
            The offsets; `NOT_KNOWN` where the source could not be asked in time, or could not tell. Partitions without
            a leader are offline.

        Raises:
            ClusterUnreachable: No broker answers.
            Refused: The principal may not describe one of the topics.
        """
        ends, epochs = self._source.led_ends(partitions)
        # Behind the end of a log that was cut off, no leader tells where: only that it is shorter.
        asked = {
            tp: _Asked(epochs[tp], record.leader_epoch, min(_end_of_epoch(record), end))
            for tp, end in ends.offsets.items()
            if (record := copied.get(tp)) and record.leader_epoch is not None and tp in epochs
            if epochs[tp] != record.leader_epoch
        }
        self._ask({tp: each for tp, each in asked.items() if not self._is_answered(tp, each)})
        known = {tp: self._answers[tp][1] if tp in self._answers else NOT_KNOWN for tp in asked}
        return LedOffsets({tp: min(end, known.get(tp, end)) for tp, end in ends.offsets.items()}, ends.offline)

    def _is_answered(self, tp: TopicPartition, asked: _Asked) -> bool:
        """Whether the last answer holds: a cut-off does, however long the log gets, until the leader is another one."""
        if tp not in self._answers:
            return False
        before, end = self._answers[tp]
        return before == asked or (end != _WHOLE and replace(before, position=asked.position) == asked)

    def _ask(self, asked: Mapping[TopicPartition, _Asked]) -> None:
        for tp in asked:
            self._answers.pop(tp, None)
        # Below the log start no leader knows the epochs any more; what was cut off there is deleted as well.
        starts = self._source.led_offsets(asked, "earliest").offsets if asked else {}
        for tp, each in asked.items():
            if each.position <= starts.get(tp, -1):
                self._answers[tp] = each, _WHOLE
        deadline = Deadline(_SECONDS)
        left = [tp for tp in asked if tp not in self._answers]
        for first in range(0, len(left), _AT_ONCE):
            wanted = {tp: Position(asked[tp].position, asked[tp].epoch) for tp in left[first : first + _AT_ONCE]}
            try:
                found = self._validated(wanted, deadline)
            except (K2KError, Restart) as error:
                log.warning("whether the source still holds what was copied cannot be asked now: %s", error)
                return
            self._answers.update((tp, (asked[tp], end)) for tp, end in found.items() if end != NOT_KNOWN)

    def _validated(self, wanted: Mapping[TopicPartition, Position], deadline: Deadline) -> dict[TopicPartition, int]:
        """Reads from these positions on, so that the leaders are asked; returns what is known in time."""
        found: dict[TopicPartition, int] = {}
        source = records_transport_of(self._pipeline).open_source(_BUFFER_BYTES)
        try:
            source.assign(wanted)
            while (left := wanted.keys() - found.keys()) and not deadline.expired():
                try:
                    polled = source.poll(1000, min(0.1, deadline.remaining()))
                except SourceStopped as stopped:
                    found[stopped.partition] = _cut_off(stopped.partition, stopped.reason)
                    source.assign({tp: wanted[tp] for tp in left - {stopped.partition}})
                    continue
                found.update(dict.fromkeys([*(chunk.source for chunk in polled.chunks), *polled.ends], _WHOLE))
        finally:
            source.close()
        return found


def _end_of_epoch(record: CopyEnd) -> int:
    """The offset after the last record that was copied, where the leader epoch of the commit record holds."""
    return record.position if record.epoch_end is None else record.epoch_end


def _cut_off(partition: TopicPartition, reason: StopReason) -> int:
    """Up to where the log is the one that was copied, by the reason for which it cannot be read on."""
    if isinstance(reason, SourceReadDenied | BatchUnreadable | RecordsDeleted):
        return _WHOLE  # the leader was asked before it was read
    end = reason.epoch_end if isinstance(reason, SourceDiverged) else None
    if end is None or end < 0:
        log.warning("%s: which positions are of a former log is not known: %s", partition, render(reason))
        return NOT_KNOWN
    log.warning("%s: positions above %d are of a former log: %s", partition, end, render(reason))
    return end
