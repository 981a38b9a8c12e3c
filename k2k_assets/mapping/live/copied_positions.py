"""Follows the commit topic: how far each source partition is copied, and where its copying began."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress

from k2k_assets.control.commit_record import CommitRecord, is_other_kind, parse_key
from k2k_assets.control.newest_commits import NewestCommits
from k2k_assets.core.any_group import ANY_GROUP
from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster, TopicDescription
from k2k_assets.kafka.messages import Message
from k2k_assets.kafka.topic_follower import TopicFollower
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.pipeline import Pipeline

log = logging.getLogger("k2k.mapping")


class CommitsOfOthers:
    """The commit records of other pipelines, as far as they matter: who copies what into which target topic. Pure.

    Args:
        cluster_id: Id of the source cluster.
    """

    def __init__(self, cluster_id: str) -> None:
        self._cluster = cluster_id
        self._clusters: dict[str, str] = {}
        self._beside: dict[str, dict[str, dict[str, CommitRecord]]] = {}

    def take(self, record: CommitRecord) -> None:
        """Takes in a commit record of another pipeline, or of another source cluster; in any order."""
        if record.cluster != self._cluster:
            self._clusters[record.target_topic] = record.cluster
            return
        of_topic = self._beside.setdefault(record.target_topic, {}).setdefault(record.target_topic_id, {})
        known = of_topic.setdefault(record.source.topic, record)
        if record.time > known.time:
            of_topic[record.source.topic] = record

    def cluster_into(self, topic: str) -> str | None:
        """Id of another source cluster that is copied to a target topic too; None if none is known."""
        return self._clusters.get(topic)

    def into(self, topic: str) -> Mapping[str, Mapping[str, CommitRecord]]:
        """The topics of the same source that other pipelines copy to a target topic, with the newest record of each.

        They come by the id of the target topic: what went into a deleted one is not in today's.
        """
        return self._beside.get(topic, {})


class CopiedPositions:
    """The newest commit record of each source partition of a pipeline's group.

    Args:
        pipeline: Names topic, group and policies.
        cluster_id: Source cluster id.
        topic: Description of the commit topic.
        target: The target cluster.

    Attributes:
        others: What other pipelines copy to the same target topics.
    """

    def __init__(self, pipeline: Pipeline, cluster_id: str, topic: TopicDescription, target: Cluster) -> None:
        self._group, self._cluster = pipeline.group, cluster_id
        self._fail = pipeline.error_handling.on_control_message_deserialization_error == "fail"
        properties = pipeline.client_properties("target", "consumer")
        self._follower = TopicFollower(topic, target, properties, committed_only=True)
        self._newest: NewestCommits[SourcePartition] = NewestCommits()
        self.others = CommitsOfOthers(cluster_id)
        self._unreadable: Refused | None = None

    def read(self, patience: float) -> None:
        """Reads the commit topic to its present end. Arguments and errors: see `TopicFollower.catch_up`."""
        if self._unreadable:
            raise self._unreadable  # the follower is past the unreadable record, which must not be ignored
        for batch in self._follower.catch_up(patience):
            self._take(batch)

    def newest(self) -> dict[SourcePartition, CommitRecord]:
        """The newest record of each source partition; a topic that was created anew has other source partitions."""
        return self._newest.records

    def of_group(self, source: SourcePartition, group: str) -> CommitRecord | None:
        """The newest record of a source partition by one group; None if there is none."""
        return self._newest.of_group(source, group)

    def close(self) -> None:
        """Closes the client."""
        self._follower.close()

    def _take(self, batch: Iterable[Message]) -> None:
        for message in batch:
            if is_other_kind(message.key()) or message.value() is None:
                continue  # notes of stops, and assignment records where they share the topic
            where = f"{message.topic()}-{message.partition()}@{message.offset()}"
            place = None
            try:
                group, cluster, place = parse_key(message.key(), where)
                if cluster != self._cluster or self._group not in (group, ANY_GROUP):
                    with suppress(ValueError):  # it is no matter of this pipeline whether the record can be read
                        self.others.take(CommitRecord.parse(message.key(), message.value(), where))
                    continue
                record = CommitRecord.parse(message.key(), message.value(), where)
            except ValueError as error:
                if self._fail:
                    self._unreadable = Refused(f"control record cannot be read: {error}")
                    raise self._unreadable from None
                log.warning("control record ignored: %s", error)
                self._pass_over(place)
                continue
            source = SourcePartition(
                record.cluster, record.source.topic, record.source_topic_id, record.source.partition
            )
            self._newest.take(source, record)

    def _pass_over(self, place: TopicPartition | None) -> None:
        for source in list(self._newest.records):
            if (source.topic, source.partition) == place:
                self._newest.pass_over(source)
