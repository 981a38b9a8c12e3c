"""Finds by content what a group would skip or read twice on the target: brute force, from both clusters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets_tests.support.brokers.kafka import read_all

Positions = Mapping[TopicPartition, int]
Offsets = NDArray[Any]


@dataclass
class BothSides:
    """Committed records of both clusters; values say which record is which, so they must be unique.

    Attributes:
        copies: By source partition and target partition: a row (source offset, target offset) for every copy.
        records: Offsets and values of each target partition, in order.
    """

    copies: dict[tuple[TopicPartition, TopicPartition], Offsets] = field(default_factory=dict)
    records: dict[TopicPartition, list[tuple[int, bytes | None]]] = field(default_factory=dict)

    @classmethod
    def read(cls, source: str, topics: list[str], target: str, target_topics: list[str]) -> BothSides:
        """Reads all of it."""
        found = cls()
        place: dict[bytes | None, tuple[TopicPartition, int]] = {}
        for topic in topics:
            for record in read_all(source, topic):
                assert record.value not in place
                place[record.value] = (TopicPartition(topic, record.partition), record.offset)
        pairs: dict[tuple[TopicPartition, TopicPartition], list[tuple[int, int]]] = {}
        for topic in target_topics:
            for record in read_all(target, topic):
                at, (origin, offset) = TopicPartition(topic, record.partition), place[record.value]
                pairs.setdefault((origin, at), []).append((offset, record.offset))
                found.records.setdefault(at, []).append((record.offset, record.value))
        found.copies = {key: np.array(sorted(of_key)) for key, of_key in pairs.items()}
        return found

    def skipped(self, positions: Positions, target: TopicPartition, answer: int) -> int:
        """S: copied records that were not read on the source, and that nobody reads at or after `answer`."""
        count = 0
        for position, source, at in self._feeding(positions, target):
            unread = source >= position
            count += len(np.setdiff1d(source[unread & (at < answer)], source[unread & (at >= answer)]))
        return count

    def reread(self, positions: Positions, target: TopicPartition, answer: int) -> int:
        """R: records that were read on the source, and lie at or after `answer` too."""
        return sum(
            len(np.unique(source[(source < position) & (at >= answer)]))
            for position, source, at in self._feeding(positions, target)
        )

    def best(self, positions: Positions, target: TopicPartition, readable_end: int) -> int:
        """The smallest unread target offset, or the end: what it has to be where sources are mixed."""
        unread = [at[source >= position] for position, source, at in self._feeding(positions, target)]
        return min([readable_end, *(int(of_source.min(initial=readable_end)) for of_source in unread)])

    def _feeding(self, positions: Positions, target: TopicPartition) -> Iterator[tuple[int, Offsets, Offsets]]:
        """Of each source partition with a position: that, and the offsets of its copies on both sides."""
        for (source, at), pairs in self.copies.items():
            if at == target and source in positions:
                yield positions[source], pairs[:, 0], pairs[:, 1]
