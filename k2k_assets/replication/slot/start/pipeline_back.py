"""Reads what the pipeline back notes on the source cluster of a slot: its commit records, and its settings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from k2k_assets.control.assignment_records import parse_settings
from k2k_assets.control.commit_record import CommitRecord, is_other_kind
from k2k_assets.control.newest_commits import NewestCommits
from k2k_assets.core import json_codec
from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.log_reader import LogReader, NotReadToTheEnd
from k2k_assets.kafka.messages import Message
from k2k_assets.permissions.granted import on_topics
from k2k_assets.pipeline.reverse import reverse_of
from k2k_assets.replication.plan import SlotPlan

Settings = Mapping[str, Collection[Mapping[str, Any]]]
"""The settings under which groups have copied, as documents for `CopySettings.parse`, by group."""


class PipelineBack:
    """The control topics of the pipeline back, and of whatever else copies to the source of a slot.

    Args:
        slot: The slot.
        source: Its source cluster.
        keep_waiting: Called while it reads; may raise.
    """

    def __init__(self, slot: SlotPlan, source: Cluster, keep_waiting: Callable[[], None]) -> None:
        self._slot, self._source, self._keep_waiting = slot, source, keep_waiting
        self._names = reverse_of(slot.pipeline).coordination

    @property
    def commit_topic(self) -> str:
        """Name of its commit topic."""
        return self._names.commit.topic

    def commits(self) -> list[CommitRecord]:
        """The newest commit record of each source partition and group.

        Raises:
            ClusterUnreachable: The topic was not read to its end.
        """
        newest: NewestCommits[tuple[str, str, TopicPartition]] = NewestCommits()
        for message in self._last_of_each_key(self.commit_topic, committed_only=True):
            if message.value() is not None and not is_other_kind(message.key()):
                with suppress(ValueError):  # a record that is not readable here stops the pipeline that it belongs to
                    record = CommitRecord.parse(message.key(), message.value(), self.commit_topic)
                    newest.take((record.group, record.cluster, record.source), record)
        return list(newest.records.values())

    def settings(self) -> Settings:
        """All settings that its assignment topic notes; none if that cannot be seen.

        Raises:
            ClusterUnreachable: The topic was not read to its end.
        """
        topic = self._names.assignment.topic
        granted = on_topics(self._source, {topic: ["Read"]})()
        found: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
        if granted.absent or granted.lacking:
            return found
        for message in self._last_of_each_key(topic, committed_only=False):
            with suppress(ValueError):
                head, value = json_codec.decode(message.key(), topic), message.value()
                if head.get("kind") == "settings" and value is not None:
                    found[str(head.get("group"))].append(parse_settings(value, topic))
        return found

    def _last_of_each_key(self, topic: str, committed_only: bool) -> Iterable[Message]:
        """The last record of each key in each partition. It reads on as long as it advances.

        Raises:
            ClusterUnreachable: It has not advanced for `coordination.commit.syncTimeout`.
        """
        pipeline, source = self._slot.pipeline, self._source
        partitions = source.partitions_of([topic])
        starts, ends = source.offsets(partitions, "earliest"), source.offsets(partitions, "latest")
        seconds = pipeline.coordination.commit.sync_timeout.total_seconds()
        newest: dict[tuple[int, bytes | None], Message] = {}
        before: Mapping[TopicPartition, tuple[int, int]] = {}
        properties = pipeline.client_properties("source", "consumer")
        with LogReader(properties, starts, committed_only, role="source") as reader:
            while True:
                try:
                    for batch in reader.read_until(ends, Deadline(seconds)):
                        self._keep_waiting()
                        newest.update({(message.partition(), message.key()): message for message in batch})
                    return newest.values()
                except NotReadToTheEnd as blocked:
                    if blocked.behind == before:
                        raise ClusterUnreachable(
                            f"the topic {topic} of the pipeline back on the {source} was not read to its end: "
                            f"{blocked}. A transaction may be open in it"
                        ) from None
                    before = blocked.behind
