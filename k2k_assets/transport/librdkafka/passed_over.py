"""Leaves out aborted records before the position, if a pipeline was switched from read_committed to read_uncommitted.

Reading begins right after the last record that was copied (see `PartitionState.reading_from`). Markers and aborted
records lie between that record and the position. The aborted ones are readable now, and have to be left out once more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from k2k_assets.core.stops.reasons.source_log import LaterLeaderEpoch
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.messages import Message
from k2k_assets.transport.errors import SourceStopped
from k2k_assets.transport.interface import Position

log = logging.getLogger("k2k.transport")

# Finds the first committed record between two offsets: returns its offset, or the second offset if there is none, or
# None if the source does not answer in time.
FirstCommitted = Callable[[TopicPartition, int, int], int | None]


class PassedOver:
    """Leaves out the records before the positions of partitions.

    Records there with the leader epoch of the last copied record existed when the position was committed. Records of a
    later epoch may have existed too, or were written since, where markers were truncated. Aborted records may be left
    out in both cases. A committed record among them means that the log is another one: the loop has to stop there.

    Args:
        positions: Positions from which partitions are read.
        first_committed: Called once for a partition that has records of a later leader epoch there.
    """

    def __init__(self, positions: Mapping[TopicPartition, Position], first_committed: FirstCommitted) -> None:
        self._positions = {tp: position for tp, position in positions.items() if position.resume is not None}
        self._first_committed = first_committed
        self._aborted: set[TopicPartition] = set()

    def __bool__(self) -> bool:
        return bool(self._positions)

    def without(self, messages: list[Message]) -> list[Message]:
        """Returns the messages without those to leave out.

        Raises:
            SourceStopped: The source does not tell whether these are aborted.
        """
        left = []
        for message in messages:
            tp, offset = TopicPartition(message.topic(), message.partition()), message.offset()
            position = self._positions.get(tp)
            if position is None or position.resume is None:
                left.append(message)
            elif offset >= position.resume:
                del self._positions[tp]
                left.append(message)
            elif message.leader_epoch() != position.leader_epoch and not self._is_aborted(tp, offset, position.resume):
                left.append(message)
        return left

    def _is_aborted(self, tp: TopicPartition, offset: int, resume: int) -> bool:
        if tp in self._aborted:
            return True
        committed = self._first_committed(tp, offset, resume)
        if committed is None:
            raise SourceStopped(tp, LaterLeaderEpoch(tp, offset, resume))
        if committed < resume:
            return False
        log.warning("%s: the aborted records from offset %d to %d are not copied", tp, offset, resume - 1)
        self._aborted.add(tp)
        return True
