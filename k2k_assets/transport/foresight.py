"""Predicts the target offsets of chunks before they are delivered, so that their mapping record need not wait.

If one writer feeds a target partition, its next record lies one transaction marker behind its last one. This makes a
small transaction a third shorter. The sink compares the prediction with the deliveries before it commits.
"""

from __future__ import annotations

from collections.abc import Iterable

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.chunk import Sent
from k2k_assets.transport.interface import Delivery

_MARKERS = 1


class Foresight:
    """Predicts target offsets for one exactly-once session whose source partitions each have their own target."""

    def __init__(self) -> None:
        self._next: dict[TopicPartition, tuple[int, int]] = {}

    def of(self, chunks: Iterable[Sent]) -> list[Delivery] | None:
        """Predicts the deliveries of chunks, provided that nobody else writes.

        It returns None unless an earlier transaction of this session has shown the end of each target partition.

        Args:
            chunks: The chunks of one transaction, in order.
        """
        following: dict[TopicPartition, int] = {}
        foreseen = []
        for sent in chunks:
            if sent.source not in self._next:
                return None
            partition, first = self._next[sent.source]
            first = following.get(sent.source, first)
            following[sent.source] = first + sent.count
            foreseen.append(Delivery(sent, partition, first, first + sent.count - 1))
        return foreseen

    def learn(self, deliveries: Iterable[Delivery]) -> None:
        """Learns the ends of target partitions from the deliveries of one transaction."""
        for delivery in deliveries:
            partition, last = delivery.each[-1] if delivery.each else (delivery.partition, delivery.last)
            self._next[delivery.sent.source] = partition, last + 1 + _MARKERS
