"""A snapshot of both clusters for an override: topics, log starts and ends."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from k2k_assets.control.commit_log import CommitLog
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster, TopicDescription
from k2k_assets.overrides.decide import PartitionFacts
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.plan import is_one_to_one
from k2k_assets.topics.selection import ensure_selected, resolve_topics


@dataclass(frozen=True, slots=True)
class OffsetSnapshot:
    """The present state of both clusters.

    Attributes:
        cluster_id: Source cluster id.
        topics: The requested source topics.
        targets: Their target topics, as far as they exist.
        one_to_one: Whether one source partition feeds each target partition.
        starts: Log starts of the source partitions.
        readable: `Pipeline.readable_end` of the source partitions.
        ends: High watermarks of the source partitions.
        target_ends: High watermarks of the target partitions.
    """

    cluster_id: str
    topics: Mapping[str, TopicDescription]
    targets: Mapping[str, TopicDescription]
    one_to_one: bool
    starts: Mapping[TopicPartition, int]
    readable: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    target_ends: Mapping[TopicPartition, int]

    @property
    def partitions(self) -> list[TopicPartition]:
        """All partitions of the requested source topics."""
        return [TopicPartition(t.name, p) for t in self.topics.values() for p in range(t.partitions)]

    def facts(self, pipeline: Pipeline, tp: TopicPartition, log: CommitLog) -> PartitionFacts:
        """Collects the state of one partition from the snapshot and the commit log.

        One that the topic no longer has is empty.
        """
        target = pipeline.routing.target_topic(tp.topic)
        there = self.targets.get(target)
        target_end = self.target_ends.get(TopicPartition(target, tp.partition), 0) if self.one_to_one else None
        return PartitionFacts(
            source=tp,
            record=log.positions.get(tp),
            unreadable=log.unreadable.get(tp),
            source_topic_id=self.topics[tp.topic].topic_id,
            target_topic=target,
            target_topic_id=there.topic_id if there else None,
            start=self.starts.get(tp, 0),
            readable=self.readable.get(tp, 0),
            end=self.ends.get(tp, 0),
            target_end=target_end,
            noted=note.reason if (note := log.noted.get(tp)) else None,
        )


def take_snapshot(
    pipeline: Pipeline, source: Cluster, target: Cluster, topics: Collection[str] | None
) -> OffsetSnapshot:
    """Looks at both clusters; changes nothing.

    Args:
        pipeline: The pipeline.
        source: The source cluster.
        target: The target cluster.
        topics: Source topics; None: all that the pipeline selects.

    Raises:
        Refused: One of the topics is not selected, or does not exist.
        ClusterUnreachable: A cluster does not answer.
    """
    selected = resolve_topics(pipeline, source, partly=topics is not None)
    ensure_selected(pipeline, source, topics or (), selected)
    described = source.describe(selected if topics is None else sorted(topics))
    targets = target.describe({pipeline.routing.target_topic(name) for name in described})
    partitions = [TopicPartition(t.name, p) for t in described.values() for p in range(t.partitions)]
    on_target = [TopicPartition(t.name, p) for t in targets.values() for p in range(t.partitions)]
    return OffsetSnapshot(
        cluster_id=source.cluster_id(),
        topics=described,
        targets=targets,
        one_to_one=is_one_to_one(pipeline, pipeline.selection.literal or selected),
        starts=source.offsets(partitions, "earliest"),
        readable=source.offsets(partitions, pipeline.readable_end),
        ends=source.offsets(partitions, "latest"),
        target_ends=target.offsets(on_target, "latest"),
    )
