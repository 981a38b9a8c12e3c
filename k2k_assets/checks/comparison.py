"""What a content check compares: which stretches, in which topics, and what can be told about their ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from k2k_assets.checks.sampling import Stretch, joined, stretches
from k2k_assets.kafka.cluster import Cluster, TopicDescription
from k2k_assets.kafka.leaders import offsets_where_led
from k2k_assets.mapping.index import MappingIndex
from k2k_assets.mapping.index.portions import by_source, skipped_ranges
from k2k_assets.mapping.offset_ranges import OffsetRange
from k2k_assets.pipeline import Pipeline
from k2k_assets.topic_partition import TopicPartition

Limit = tuple[str, str, str, int, int, int, int, bool]
LIMITS = (
    "side string, topic string, topic_id string, partition int, low long, stable long, high long, compacted boolean"
)


@dataclass(frozen=True, slots=True)
class Side:
    """One cluster's part in a comparison.

    Attributes:
        cluster: Asked again for its watermarks after the records were read.
        topics: Existing topics that take part.
        stable: Last stable offsets when the comparison was planned: nothing is read beyond.
        compacted: Topics in which any record may be missing for a good reason.
        timestamps: Topics whose timestamps are compared.
    """

    cluster: Cluster
    topics: Mapping[str, TopicDescription]
    stable: Mapping[TopicPartition, int]
    compacted: frozenset[str]
    timestamps: frozenset[str]

    def limits(self) -> list[Limit]:
        """The watermarks now, one row a partition, columns `LIMITS`."""
        low = offsets_where_led(self.cluster, self.stable, "earliest", {})
        high = offsets_where_led(self.cluster, low, "latest", {})
        return [
            (
                self.cluster.role,
                tp.topic,
                self.topics[tp.topic].topic_id,
                tp.partition,
                low[tp],
                stable,
                high[tp],
                tp.topic in self.compacted,
            )
            for tp, stable in self.stable.items()
            if tp in high
        ]

    def readable(self, ranges: Iterable[tuple[TopicPartition, int, int]], gap: int) -> list[OffsetRange]:
        """The ranges (start inclusive, end exclusive) as far as they can be read.

        Args:
            ranges: In any order.
            gap: Ranges that are closer become one; then more is read than was asked for.
        """
        by_partition: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
        for tp, start, end in ranges:
            stable = self.stable.get(tp, 0)
            if start < stable:
                by_partition[tp].append((start, min(end, stable)))
        return [OffsetRange(*tp, *piece) for tp, pieces in by_partition.items() for piece in joined(pieces, gap)]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The plan of a content check.

    Attributes:
        source: The source side.
        target: The target side.
        source_cluster: Id of the source cluster; runs of others are left out.
        stretches: What is looked at.
        former_topics: Topics in the index that do not exist any more under their id, on the source.
        leaderless: Partitions on either side that have no leader, with the reason: they are left out.
        skipped: Source ranges that were skipped by hand, also such as are not looked at.
    """

    source: Side
    target: Side
    source_cluster: str
    stretches: list[Stretch] = field(default_factory=list)
    former_topics: int = 0
    leaderless: Mapping[TopicPartition, str] = field(default_factory=dict)
    skipped: Sequence[Stretch] = ()

    def source_ids(self) -> list[tuple[str, str]]:
        """Topic and topic id of the source topics that take part."""
        return [(topic.name, topic.topic_id) for topic in self.source.topics.values()]


def plan_comparison(
    spark: SparkSession, pipeline: Pipeline, index: MappingIndex, source: Cluster, target: Cluster
) -> Comparison:
    """Draws the stretches from what the index covers and the source still holds.

    Raises:
        ClusterUnreachable: A cluster does not answer.
    """
    cluster_id = source.cluster_id()
    covered = index.coverage(spark).where(F.col("cluster") == cluster_id).collect()
    routes = {
        (row["topic"], row["target_topic"])
        for row in index.runs(spark).select("topic", "target_topic").distinct().collect()
    }
    ids = {(row["topic"], row["source_topic_id"]) for row in covered}
    existing = source.describe({topic for topic, _ in ids})
    today = {name: topic for name, topic in existing.items() if (name, topic.topic_id) in ids}
    on_target = target.describe({name for _, name in routes})
    timed = timed_topics(pipeline, routes, source, target, today, on_target)
    leaderless: dict[TopicPartition, str] = {}
    source_side = _side(source, today, frozenset(t for t, to in routes if to in timed), leaderless)
    target_side = _side(target, on_target, timed, leaderless)
    ranges: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
    for row in covered:
        topic = today.get(row["topic"])
        if topic and topic.topic_id == row["source_topic_id"] and row["partition"] < topic.partitions:
            ranges[TopicPartition(row["topic"], row["partition"])].append((row["covered_from"], row["covered_to"]))
    starts = offsets_where_led(source, [tp for tp in ranges if tp in source_side.stable], "earliest", leaderless)
    drawn = stretches({tp: ranges[tp] for tp in starts}, starts, seed=index.manifest.number)
    skipped = [
        Stretch(at.topic, at.partition, *each)
        for at, of_source in by_source(index.portions).items()
        if at.cluster == cluster_id and at.topic in today and today[at.topic].topic_id == at.topic_id
        for each in skipped_ranges(of_source)
    ]
    return Comparison(source_side, target_side, cluster_id, drawn, len(ids) - len(today), leaderless, skipped)


def _side(
    cluster: Cluster,
    topics: Mapping[str, TopicDescription],
    timestamps: frozenset[str],
    leaderless: dict[TopicPartition, str],
) -> Side:
    partitions = [TopicPartition(topic.name, p) for topic in topics.values() for p in range(topic.partitions)]
    stable = offsets_where_led(cluster, partitions, "stable", leaderless)
    return Side(cluster, topics, stable, compacted_topics(cluster, topics), timestamps)


def compacted_topics(cluster: Cluster, topics: Iterable[str]) -> frozenset[str]:
    """Those of existing topics in which any record may be missing for a good reason."""
    configs = cluster.topic_configs(list(topics), only_changed=False)
    return frozenset(name for name, config in configs.items() if "compact" in config.get("cleanup.policy", ""))


def timed_topics(
    pipeline: Pipeline,
    routes: Iterable[tuple[str, str]],
    source: Cluster,
    target: Cluster,
    on_source: Mapping[str, TopicDescription],
    on_target: Mapping[str, TopicDescription],
) -> frozenset[str]:
    """Target topics whose timestamps must be those of the source: nobody else stamps them on either side.

    Args:
        pipeline: May not keep timestamps at all.
        routes: Source topics, each with its target topic.
        source: The source cluster.
        target: The target cluster.
        on_source: Existing source topics, by name.
        on_target: Existing target topics, by name.
    """
    if not pipeline.features.keep_record_creation_timestamp:
        return frozenset()
    stamped_there = _create_time(source, on_source)
    stamped_here = _create_time(target, on_target)
    unsure = {to for topic, to in routes if topic not in stamped_there}
    return frozenset(to for _, to in routes if to in stamped_here and to not in unsure)


def _create_time(cluster: Cluster, topics: Mapping[str, TopicDescription]) -> frozenset[str]:
    configs = cluster.topic_configs(list(topics), only_changed=False)
    return frozenset(n for n, config in configs.items() if config.get("message.timestamp.type") != "LogAppendTime")
