"""What a cluster tells an admin client, in memory: topics, offsets, leaders."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.answers import NoLeader, reasons
from k2k_assets.kafka.cluster import SeenTopics, TopicDescription
from k2k_assets.kafka.cluster_offsets import LedOffsets


class FakeCluster:
    """Answers for a cluster from what it was told.

    Args:
        topics: Topic ids and partition counts.
        starts: Log starts; `end` for the others.
        ends: High watermarks; `end` for the others.
        epochs: Leader epochs; none for the others.
        end: Log start, high watermark and last stable offset of all other partitions: nothing is left in them.

    Attributes:
        offline_partitions: Partitions that have no leader.
        at_times: Offset of the first record that is not older than a time, by partition and time; without one the last
            stable offset.
    """

    def __init__(
        self,
        topics: Mapping[str, tuple[str, int]],
        starts: Mapping[TopicPartition, int] | None = None,
        ends: Mapping[TopicPartition, int] | None = None,
        stable: Mapping[TopicPartition, int] | None = None,
        epochs: Mapping[TopicPartition, int] | None = None,
        end: int = 0,
    ) -> None:
        self._end = end
        self.topics = dict(topics)
        self.offline_partitions: set[TopicPartition] = set()
        self.at_times: dict[tuple[TopicPartition, int], int] = {}
        self._epochs = epochs or {}
        self._offsets = {"earliest": starts or {}, "latest": ends or {}, "stable": stable or ends or {}}

    def describe(self, names: Collection[str]) -> dict[str, TopicDescription]:
        return {name: TopicDescription(name, *self.topics[name]) for name in names if name in self.topics}

    def describe_async(self, names: Collection[str], partly: bool = False) -> Callable[[], dict[str, TopicDescription]]:
        return lambda: self.describe(names)

    def seen_async(self, names: Collection[str]) -> Callable[[], SeenTopics]:
        return lambda: SeenTopics(self.describe(names), {})

    def offsets(self, partitions: Iterable[TopicPartition], which: str) -> dict[TopicPartition, int]:
        asked = set(partitions)
        if missing := self._missing(asked):
            raise NoLeader("fake cluster", missing)
        return {tp: self._offsets[which].get(tp, self._end) for tp in asked}

    def led_offsets(self, partitions: Iterable[TopicPartition], which: str, patience: float = 0) -> LedOffsets:
        asked = set(partitions)
        led = {tp: self._offsets[which].get(tp, self._end) for tp in asked - self.offline_partitions}
        return LedOffsets(led, reasons("fake cluster", self._missing(asked)))

    def led_offsets_at(self, partitions: Iterable[TopicPartition], timestamp: int, patience: float = 0) -> LedOffsets:
        ends, offline = self.led_offsets(partitions, "stable", patience)
        return LedOffsets({tp: self.at_times.get((tp, timestamp), end) for tp, end in ends.items()}, offline)

    def _missing(self, asked: set[TopicPartition]) -> dict[TopicPartition, str]:
        return dict.fromkeys(asked & self.offline_partitions, "a broker is down")

    def leader_epochs(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self._epochs[tp] for tp in partitions if tp in self._epochs}
