"""Finds foreign writers: chunks have to lie one behind the other on the target.

Only where one source partition feeds one target partition. A gap in the chain is read back: transaction markers and
aborted records leave gaps too, but nothing that a reader sees. Outside transactions what the former owner of the
partition had sent may come late, if it did not let go of it; and what one before it had sent, that slept meanwhile,
also behind its release. Such records cannot be told from somebody else's, and are only named.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from k2k_assets.core.stops.reason import StopReason, render
from k2k_assets.core.stops.reasons import ForeignRecords, TargetTruncated
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.slot.partition_state import PartitionState
from k2k_assets.transport.interface import Delivery

log = logging.getLogger("k2k.replication")

# How a gap is read back: target partition, from, to (exclusive), whether it lies before the open transaction's first
# record (then only committed records count). Returns how many records a reader finds in it.
ReadBack = Callable[[TopicPartition, int, int, bool], int]


class ForeignWriter(Exception):
    """Somebody else writes to the target partition.

    Args:
        source: The source partition that feeds it.
        reason: What was found.
    """

    def __init__(self, source: TopicPartition, reason: StopReason) -> None:
        super().__init__(source, reason)
        self.source = source
        self.reason = reason

    def __str__(self) -> str:
        return render(self.reason)


class TargetChain:
    """The chain of one session.

    Args:
        fail: Whether a foreign record stops the partition (else it is only logged).
        markers: How many offsets a commit takes on each partition it touched: 1 in transactions, else 0.
        read_back: How to read a gap.

    Attributes:
        strict: Whether the transactions of this slot are the only ones in its target partitions.
    """

    def __init__(self, fail: bool, markers: int, read_back: ReadBack) -> None:
        self._fail = fail
        self.strict = fail and markers > 0
        self._markers = markers
        self._read_back = read_back
        self._expected: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._doubtful: set[TopicPartition] = set()
        self._since_release: set[TopicPartition] = set()
        self._floors: dict[TopicPartition, int] = {}

    def start(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        """Begins with the committed target ends. Outside transactions the own tail of a former life may follow."""
        if not self._markers:
            self._doubtful = {source for source, state in states.items() if state.unreleased}
            self._floors = {source: s.target_end for source, s in states.items() if s.target_end is not None}
            self._expected = {source: end for source, end in self._floors.items() if source not in self._doubtful}
            self._since_release = set(self._expected)
            return
        for source, state in states.items():
            if state.target_end is not None:
                self._expected[source] = state.target_end + self._markers
                self._committed[source] = state.target_end

    def follow(self, deliveries: Sequence[Delivery]) -> None:
        """Takes in the deliveries of one transaction.

        Raises:
            ForeignWriter: Somebody else's records lie between ours.
        """
        in_transaction: set[TopicPartition] = set()
        for delivery in deliveries:
            source = delivery.sent.source
            for partition, first, last in _pieces(delivery):
                target = TopicPartition(delivery.sent.target_topic, partition)
                if first < (floor := self._floors.pop(source, first)):
                    raise ForeignWriter(source, TargetTruncated(source, target, floor, first))
                expected = self._expected.get(source)
                # At-least-once leaves no marker behind: a pipeline that was switched over goes on right at its end.
                if expected is not None and first not in (expected, self._committed.pop(source, expected)):
                    self._gap(source, target, expected, first, before=source not in in_transaction)
                in_transaction.add(source)
                self._since_release.discard(source)
                self._expected[source] = last + 1
        for source in in_transaction:
            self._expected[source] += self._markers

    def _gap(self, source: TopicPartition, target: TopicPartition, start: int, end: int, before: bool) -> None:
        if end < start:
            raise ForeignWriter(source, TargetTruncated(source, target, start, end))
        if before:
            start -= self._markers  # right behind our last record may lie a foreign one, and our marker behind that
        found = self._read_back(target, start, end, before)
        if not found:
            return
        doubtful = source in self._doubtful or source in self._since_release
        if self._fail and not doubtful:
            raise ForeignWriter(source, ForeignRecords(source, target, found, start, end))
        late = ", or late by a former owner" if doubtful else ""
        log.warning(
            "%s: %d records at %s offsets %d to %d were not written by this pipeline%s", source, found, target, start,
            end - 1, late,
        )  # fmt: skip


def _pieces(delivery: Delivery) -> list[tuple[int, int, int]]:
    """The stretches (partition, first, last) that a chunk lies in on the target."""
    if delivery.each is None:
        return [(delivery.partition, delivery.first, delivery.last)]
    cuts = [i + 1 for i, (a, b) in enumerate(pairwise(delivery.each)) if b[0] != a[0] or b[1] != a[1] + 1]
    bounds = [0, *cuts, len(delivery.each)]
    return [
        (delivery.each[start][0], delivery.each[start][1], delivery.each[end - 1][1]) for start, end in pairwise(bounds)
    ]
