"""Routes: which partitions of the two clusters belong together now. A value without clients, which tasks get a copy of.

Offsets are the matter of `k2k_assets.mapping`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from k2k_assets.control.commit_record import EVERYWHERE, CommitRecord
from k2k_assets.core.errors import ClusterUnreachable, Hidden, Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import plural
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.mapping.algebra.fold import Target
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.pipeline import Pipeline

_log = logging.getLogger("k2k.translation")


@dataclass(frozen=True, slots=True)
class Standing:
    """The present topics of one cluster.

    Attributes:
        ids: Topic ids by topic.
        starts: Log start of each partition; empty if the cluster did not answer.
        offline_partitions: Partitions without a leader, with the reason; they have no start here. Positions in them are
            unknown.
        ends: Of the target: last stable offset of each partition, asked for before the mappings were read to their end.
        hidden: Topics that may not be seen, each with the error for it; they have no ids here.
    """

    ids: Mapping[str, str]
    starts: Mapping[TopicPartition, int]
    offline_partitions: Mapping[TopicPartition, str] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    hidden: Mapping[str, Hidden] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Routes:
    """The routes of a pipeline.

    Attributes:
        cluster: Source cluster id.
        targets: Target topic of each copied source topic.
        spread: Source topics whose records do not keep the number of their partition.
        source: The source topics.
        target: The target topics.
        at_least_once: Whether the file says that all topics are copied at least once.
        noted: Source partitions that are copied at least once, or were, as their commit records say: each with
            `CommitRecord.repeats_below`.
    """

    cluster: str
    targets: Mapping[str, str]
    spread: frozenset[str]
    source: Standing
    target: Standing
    at_least_once: bool = False
    noted: Mapping[TopicPartition, int] = field(default_factory=dict)

    def as_noted(self, copied: Iterable[CommitRecord]) -> Routes:
        """The routes, where some partitions are copied at least once, or were, whatever the file says by now.

        Args:
            copied: The newest commit records of the source partitions, also of those of former topics.
        """
        noted = {
            record.source: below
            for record in copied
            if record.source_topic_id == self.source.ids.get(record.source.topic)
            if (below := record.repeats_below) is not None
        }
        return replace(self, noted=noted)

    def source_partition(self, topic: str, partition: int) -> SourcePartition | None:
        """The source partition with today's topic id; None if the topic was never copied."""
        topic_id = self.source.ids.get(topic)
        return None if topic_id is None else SourcePartition(self.cluster, topic, topic_id, partition)

    def target_partition(self, topic: str, partition: int) -> Target | None:
        """The target partition with today's topic id; None if the topic is no target topic, or does not exist."""
        topic_id = self.target.ids.get(topic)
        return None if topic_id is None else Target(topic, topic_id, partition)

    def why_hidden(self, source_topics: Iterable[str]) -> Hidden | None:
        """The error for topics of which one, or its target topic, may not be seen: of these nothing is known."""
        for topic in source_topics:
            if why := self.source.hidden.get(topic) or self.target.hidden.get(self.targets.get(topic, "")):
                return why
        return None

    def sources_of(self, target_topic: str) -> list[str]:
        """The source topics that are copied to a target topic."""
        return sorted(topic for topic, target in self.targets.items() if target == target_topic)

    def is_at_least_once(self, source: TopicPartition) -> bool:
        """Whether a partition is copied at least once: copies may not be mapped yet."""
        return self.repeats_below(source) == EVERYWHERE

    def repeats_below(self, source: TopicPartition) -> int | None:
        """As `CommitRecord.repeats_below`, of a source partition."""
        return EVERYWHERE if self.at_least_once else self.noted.get(source)

    def keeps_partition(self, source_topic: str) -> bool:
        """Whether records of a source topic keep the number of their partition."""
        return source_topic not in self.spread

    def is_alone(self, source_topic: str) -> bool:
        """Whether each partition of a topic is the only source of one target partition, and goes to no other."""
        return self.keeps_partition(source_topic) and Counter(self.targets.values())[self.targets[source_topic]] == 1


def newest_ids(sources: Iterable[tuple[SourcePartition, tuple[int, int]]]) -> dict[str, str]:
    """The id of each topic under which it was copied last.

    Args:
        sources: Source partitions, each with the order (generation, sequence) of its last copy.
    """
    return {source.topic: source.topic_id for source, _ in sorted(sources, key=lambda item: item[1])}


def routes(
    pipeline: Pipeline, cluster: str, copied: Mapping[str, str], source: Cluster | None, target: Cluster
) -> Routes:
    """Makes the routes; asks both clusters for the topics.

    Args:
        pipeline: Has routing and delivery mode.
        cluster: Source cluster id.
        copied: Id of each source topic under which it was copied last.
        source: The source cluster; None if it does not answer: then these ids count as its present ones.
        target: The target cluster.

    Raises:
        ClusterUnreachable: A cluster does not answer.
    """
    targets = {}
    for topic in copied:
        try:
            targets[topic] = pipeline.routing.target_topic(topic)
        except Refused:
            continue  # the topic has no route any more
    on_source = _standing(source, targets) if source else Standing(dict(copied), {})
    spread = frozenset(topic for topic in targets if not pipeline.routing.keeps_partition(topic))
    on_target = _standing(target, set(targets.values()))
    on_target = replace(on_target, ends=target.led_offsets(on_target.starts, "stable").offsets)
    return Routes(cluster, targets, spread, on_source, on_target, not pipeline.features.exactly_once)


def answering(source: Cluster, needed: bool) -> Cluster | None:
    """Returns the source if it answers, else None: after a disaster only the target may be left.

    Raises:
        ClusterUnreachable: The source does not answer, and is needed.
    """
    try:
        source.topics()
    except ClusterUnreachable as error:
        if needed:
            raise
        _log.warning("the source is taken as it was when it was copied last: %s", error)
        return None
    return source


def _standing(cluster: Cluster, topics: Iterable[str]) -> Standing:
    described, hidden = cluster.seen_async(list(topics))()
    partitions = [TopicPartition(topic.name, p) for topic in described.values() for p in range(topic.partitions)]
    ids = {name: topic.topic_id for name, topic in described.items()}
    starts, offline = cluster.led_offsets(partitions, "earliest")
    if offline:
        why = next(iter(offline.values()))
        _log.warning("positions in %s are unknown: %s", plural(len(offline), "partition"), why)
    for reason in hidden.values():
        _log.warning("where records of it are is not told: %s", reason)
    return Standing(ids, starts, offline, hidden=hidden)
