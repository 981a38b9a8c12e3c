"""The name of a partition, independent of any Kafka library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

V = TypeVar("V")

HIGHEST_OFFSET = 2**63 - 1
"""The highest offset that Kafka can have."""
BEYOND_ALL_LOGS = 2**62
"""An offset behind the end of any log, in the place of an end that is not known; sums with it fit 64 bits."""


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def by_topic(partitions: Mapping[TopicPartition, V]) -> dict[str, dict[int, V]]:
    """Groups values by topic and then by partition number, both in order."""
    topics: dict[str, dict[int, V]] = {}
    for (topic, partition), known in sorted(partitions.items(), key=lambda item: item[0]):
        topics.setdefault(topic, {})[partition] = known
    return topics
