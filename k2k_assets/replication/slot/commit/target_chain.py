"""Finds foreign writers: our chunks have to lie one behind the other on the target.

This works only where one source partition feeds one target partition. A gap in the chain is read back: transaction
markers and aborted records leave gaps too, but no records that a reader sees. Outside transactions, records of a former
owner of the partition may arrive late: those of the last owner if it did not release the partition, and those of an
owner before it that was frozen, even after a release. They look like foreign records, so they are only logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.stops.reason import StopReason, render
from k2k_assets.core.stops.reasons.target_log import ForeignRecords, TargetTruncated
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import plural
from k2k_assets.kafka.read_back import EndsOfCommitted
from k2k_assets.replication.slot.commit.partition_state import PartitionState
from k2k_assets.transport.interface import Delivery

log = logging.getLogger("k2k.replication")

# Reads a gap back: target partition, start, end (exclusive), and whether the gap lies before the open transaction's
# first record (then only committed records count). Returns the number of records in the gap.
ReadBack = Callable[[TopicPartition, int, int, bool], int]


class ForeignWriter(Exception):
    """Somebody else writes to the target partition.

    Args:
        source: The source partition that feeds the target partition.
        reason: The stop reason.
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
        markers: Number of offsets that a commit takes on each of its partitions: 1 in transactions, else 0.
        read_back: Reads a gap.
        ends_of_committed: Finds where a truncated target was cut: behind the cut there may be aborted records already.

    Attributes:
        strict: Whether nobody but this slot may write to its target partitions, and it writes in transactions.
    """

    def __init__(self, fail: bool, markers: int, read_back: ReadBack, ends_of_committed: EndsOfCommitted) -> None:
        self._fail = fail
        self.strict = fail and markers > 0
        self._markers = markers
        self._read_back = read_back
        self._ends_of_committed = ends_of_committed
        self._expected: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._doubtful: set[TopicPartition] = set()
        self._since_release: set[TopicPartition] = set()
        self._floors: dict[TopicPartition, int] = {}
        self._unmarked: set[TopicPartition] = set()

    def start(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        """Begins the chain at the committed target ends.

        Outside transactions, records that were sent and not committed may lie behind these ends.
        """
        if not self._markers:
            self._doubtful = {source for source, state in states.items() if state.unreleased}
            self._floors = {source: s.target_end for source, s in states.items() if s.target_end is not None}
            self._expected = {source: end for source, end in self._floors.items() if source not in self._doubtful}
            self._since_release = set(self._expected)
            return
        for source, state in states.items():
            if state.target_end is None:
                continue
            # The end of an adopted copy, or of what others wrote and was accepted: no marker of ours follows there.
            if state.target_end in (state.target_began, state.target_accepted):
                self._expected[source] = state.target_end
                self._unmarked.add(source)
            else:
                self._expected[source] = state.target_end + self._markers
                self._committed[source] = state.target_end

    def follow(self, deliveries: Sequence[Delivery]) -> None:
        """Takes in the deliveries of one transaction.

        Raises:
            ForeignWriter: Foreign records lie between ours, or the target was truncated.
        """
        in_transaction: set[TopicPartition] = set()
        for delivery in deliveries:
            source = delivery.sent.source
            for partition, first, last in _pieces(delivery):
                target = TopicPartition(delivery.sent.target_topic, partition)
                if first < (floor := self._floors.pop(source, first)):
                    raise ForeignWriter(source, TargetTruncated(source, target, floor, first))
                expected = self._expected.get(source)
                # At-least-once mode leaves no marker: after a switch to exactly-once the chain goes on at that end.
                if expected is not None and first not in (expected, self._committed.pop(source, expected)):
                    self._gap(source, target, expected, first, before=source not in in_transaction)
                in_transaction.add(source)
                self._since_release.discard(source)
                self._expected[source] = last + 1
        for source in in_transaction:
            self._expected[source] += self._markers
        self._unmarked -= in_transaction

    def _gap(self, source: TopicPartition, target: TopicPartition, start: int, end: int, before: bool) -> None:
        if end < start:
            raise ForeignWriter(source, TargetTruncated(source, target, start, self._cut(target, end)))
        if before and source not in self._unmarked:
            start -= self._markers  # a foreign record may lie right behind our last record, before our marker
        found = self._read_back(target, start, end, before)
        if not found:
            return
        doubtful = source in self._doubtful or source in self._since_release
        if self._fail and not doubtful:
            raise ForeignWriter(source, ForeignRecords(source, target, found, start, end))
        late = ", or late by a former owner" if doubtful else ""
        log.warning(
            "%s: %s at %s offsets %d to %d %s not written by this pipeline%s", source, plural(found, "record"), target,
            start, end - 1, "was" if found == 1 else "were", late,
        )  # fmt: skip

    def _cut(self, target: TopicPartition, end: int) -> int:
        """Where a truncated target was cut; where it got the next copy, if what lies before cannot be read now."""
        if not self._markers:
            return end
        try:
            return self._ends_of_committed({target: end})[target]
        except ClusterUnreachable as error:  # the stop must not be lost: what was tried makes the target long again
            log.warning("%s: where it was truncated is not known exactly: %s", target, error)
            return end


def _pieces(delivery: Delivery) -> list[tuple[int, int, int]]:
    """The contiguous pieces of a chunk on the target: partition, first offset, last offset."""
    if delivery.each is None:
        return [(delivery.partition, delivery.first, delivery.last)]
    cuts = [i + 1 for i, (a, b) in enumerate(pairwise(delivery.each)) if b[0] != a[0] or b[1] != a[1] + 1]
    bounds = [0, *cuts, len(delivery.each)]
    return [
        (delivery.each[start][0], delivery.each[start][1], delivery.each[end - 1][1]) for start, end in pairwise(bounds)
    ]
