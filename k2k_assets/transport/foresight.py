"""Tells where chunks will go on the target before they are there, so that their mapping need not wait for them.

Where one writer feeds a target partition, its next record lies one transaction marker behind the last one. A small
transaction is a third shorter for it. What was foreseen is compared with the deliveries before anything is committed.
"""

from __future__ import annotations

from collections.abc import Iterable

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.chunk import Sent
from k2k_assets.transport.interface import Delivery

_MARKERS = 1


class Foresight:
    """Of one session in transactions, whose source partitions have target partitions of their own."""

    def __init__(self) -> None:
        self._next: dict[TopicPartition, tuple[int, int]] = {}

    def of(self, chunks: Iterable[Sent]) -> list[Delivery] | None:
        """Where chunks will go if nobody else writes; None unless a transaction of this session shows it for each.

        Args:
            chunks: Those of one transaction, in order.
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
        """Takes in the deliveries of one transaction."""
        for delivery in deliveries:
            partition, last = delivery.each[-1] if delivery.each else (delivery.partition, delivery.last)
            self._next[delivery.sent.source] = partition, last + 1 + _MARKERS
