"""What a consumer of committed records left out before its position, when the pipeline reads uncommitted since.

Reading begins right after the last record that was copied (see `PartitionState.reading_from`): between that and the
position lie markers and aborted records. The latter are readable now, and are left out once more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from k2k_assets.core.stops.reasons import LaterLeaderEpoch
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.messages import Message
from k2k_assets.transport.errors import SourceStopped
from k2k_assets.transport.interface import Position

log = logging.getLogger("k2k.transport")

# Where a committed record lies between two offsets: its offset, or the second one if there is none; None if the source
# does not say in time.
FirstCommitted = Callable[[TopicPartition, int, int], int | None]


class PassedOver:
    """The records before the positions of partitions.

    Records of the leader epoch of the last record were there when the position was committed. Those of a later one may
    have been too, or have been written since where markers were cut off. Aborted ones may be left out in both cases;
    if there is a committed one among them, the log is another, and the loop has to stop at it.

    Args:
        positions: Where reading begins.
        first_committed: Asked once for a partition that has records of a later leader epoch there.
    """

    def __init__(self, positions: Mapping[TopicPartition, Position], first_committed: FirstCommitted) -> None:
        self._positions = {tp: position for tp, position in positions.items() if position.resume is not None}
        self._first_committed = first_committed
        self._aborted: set[TopicPartition] = set()

    def __bool__(self) -> bool:
        return bool(self._positions)

    def without(self, messages: list[Message]) -> list[Message]:
        """The messages without what is left out.

        Raises:
            SourceStopped: The source does not say whether it may be.
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
