"""One cluster's side of a content check: its topics, and how far they can be read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from k2k_assets.control.copy_settings import Isolation
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster, TopicDescription
from k2k_assets.kafka.leaders import ranges_where_led
from k2k_assets.kafka.offset_ranges import OffsetRange
from k2k_assets.verification.content.sampling import joined

Limit = tuple[str, str, str, int, int | None, int, int | None, bool]
LIMITS = (
    "side string, topic string, topic_id string, partition int, low long, stable long, high long, compacted boolean"
)


@dataclass(frozen=True, slots=True)
class Side:
    """One cluster's side of a comparison.

    Attributes:
        cluster: The cluster; it is asked for its watermarks again after the records were read.
        topics: Existing topics that take part.
        stable: Last stable offsets at the time of planning; nothing is read beyond.
        latest: High watermarks at that time, for partitions that were copied uncommitted; these are read up to them.
        compacted: Topics in which compaction may have removed any record.
    """

    cluster: Cluster
    topics: Mapping[str, TopicDescription]
    stable: Mapping[TopicPartition, int]
    compacted: frozenset[str]
    latest: Mapping[TopicPartition, int] = field(default_factory=dict)

    def limits(self, topics: Collection[str]) -> list[Limit]:
        """The present watermarks of topics, one row for each partition, columns `LIMITS`.

        They are null where a partition has lost its leader since the planning: what lies there cannot be judged now.
        """
        partitions = [tp for tp in self.stable if tp.topic in topics]
        low, high, _ = ranges_where_led(self.cluster, partitions, "latest")
        return [
            (
                self.cluster.role,
                tp.topic,
                self.topics[tp.topic].topic_id,
                tp.partition,
                low.get(tp),
                self.stable[tp],
                high.get(tp),
                tp.topic in self.compacted,
            )
            for tp in partitions
        ]

    def readable(
        self, ranges: Iterable[tuple[TopicPartition, int, int]], gap: int, isolation: Isolation = "read_committed"
    ) -> list[OffsetRange]:
        """The readable parts of ranges (start inclusive, end exclusive).

        Args:
            ranges: Ranges, in any order.
            gap: Ranges that are at most so far apart are joined; then more is read than was asked for.
            isolation: Isolation level of the read.
        """
        ends = self.stable if isolation == "read_committed" else self.latest
        by_partition: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
        for tp, start, end in ranges:
            readable = ends.get(tp, 0)
            if start < readable:
                by_partition[tp].append((start, min(end, readable)))
        return [OffsetRange(*tp, *piece) for tp, pieces in by_partition.items() for piece in joined(pieces, gap)]


def side_of(
    cluster: Cluster, topics: Mapping[str, TopicDescription], partitions: Collection[TopicPartition]
) -> tuple[Side, Mapping[TopicPartition, str]]:
    """Makes one side, and finds its partitions without a leader."""
    stable, offline = cluster.led_offsets(partitions, "stable")
    return Side(cluster, topics, stable, compacted_topics(cluster, topics)), offline


def compacted_topics(cluster: Cluster, topics: Iterable[str]) -> frozenset[str]:
    """The topics in which compaction may have removed any record."""
    configs = cluster.topic_configs(list(topics), only_changed=False)
    return frozenset(name for name, config in configs.items() if "compact" in config.get("cleanup.policy", ""))
