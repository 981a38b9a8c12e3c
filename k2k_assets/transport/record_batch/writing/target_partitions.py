"""The partitions that are written to: who leads each, its sequence, and what of it waits to be sent."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Container
from dataclasses import dataclass, field

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import plural
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.record_batch.errors import ConnectionLost
from k2k_assets.transport.record_batch.wire.control_messages import TopicMetadata
from k2k_assets.transport.record_batch.wire.metadata_client import MetadataClient
from k2k_assets.transport.record_batch.wire.tasks import Task, pause
from k2k_assets.transport.record_batch.writing.pending_chunk import QueuedBatch
from k2k_assets.transport.record_batch.writing.write_errors import NO_LEADER, UNKNOWN_TOPIC, error_of

NOBODY = -1
"""In the place of a node id."""
_PAUSE = 0.1
# After so many seconds the next session finds out what is the matter.
_PATIENCE = 5.0
# Brokers remember a producer for a day (producer.id.expiration.ms).
_FORGOTTEN_SECONDS = 60.0
_PASSING = frozenset({0, UNKNOWN_TOPIC, NO_LEADER})
"""Brokers that have just started, or do not know a new topic yet, answer like this."""


@dataclass(slots=True, eq=False)
class TargetPartition:
    """A partition that is written to.

    Attributes:
        tp: Which one.
        topic_id: Its topic's id, 16 bytes.
        node: Node id of its leader; `NOBODY`: it is being found.
        sequence: Of the next record.
        end: The offset behind the last record of ours; -1 if there is none.
        ready: Batches that may be sent.
        identity: Under which producer id and epoch; None: those of the transaction.
        unanswered: How many batches have no answer yet.
        refused: Batches that were not written, and all that were sent behind them: they go again, in this order.
        refused_from: The sequence under which the first of them was sent.
        error: Why it was not written, an error code.
        taken_at: When the broker took a batch of it last, monotonic seconds.
        is_alone: Whether a batch is sent alone, and what is ready waits for its answer.
    """

    tp: TopicPartition
    topic_id: bytes
    node: int
    sequence: int = 0
    end: int = -1
    ready: deque[QueuedBatch] = field(default_factory=deque)
    identity: ProducerIdentity | None = None
    unanswered: int = 0
    refused: list[QueuedBatch] = field(default_factory=list)
    refused_from: int = 0
    error: int = 0
    taken_at: float = float("-inf")
    is_alone: bool = False

    def has_to_go_alone(self) -> bool:
        """Whether the broker may not know its producer, so that it would take a batch whose predecessor it refuses.

        In a transaction that does no harm: it would be aborted.
        """
        return self.identity is not None and time.monotonic() - self.taken_at > _FORGOTTEN_SECONDS

    def take_back(self) -> None:
        """Makes ready again what was refused, once everything is answered."""
        self.is_alone = False
        self.ready.extendleft(reversed(self.refused))
        self.refused.clear()
        self.sequence = self.refused_from


class TargetTopics:
    """The topics of the target: if one is created anew, nothing more is written to it.

    Args:
        cluster: Answers.
    """

    def __init__(self, cluster: MetadataClient) -> None:
        self._cluster = cluster
        self._topics: dict[str, TopicMetadata] = {}

    def count(self, topic: str, deadline: Deadline) -> Task[int]:
        """The number of a topic's partitions.

        Raises:
            Forbidden: The principal may not describe it.
            Restart: There is none.
        """
        found = yield from self._found(topic, None, deadline)
        return len(found.partitions)

    def partition(self, tp: TopicPartition, deadline: Deadline) -> Task[TargetPartition]:
        """A partition.

        Raises:
            Forbidden: The principal may not describe the topic.
            Restart: There is none, or nobody leads it.
        """
        topic = yield from self._found(tp.topic, tp.partition, deadline)
        return TargetPartition(tp, topic.topic_id or b"", topic.partitions[tp.partition].node)

    def leader(self, tp: TopicPartition, deadline: Deadline) -> Task[int]:
        """Node id of a partition's leader; brokers are asked.

        Raises:
            Forbidden: The principal may not describe the topic.
            Restart: There is none, nobody leads it, or the topic was created anew.
        """
        topic = yield from self._found(tp.topic, tp.partition, deadline, is_new=True)
        return topic.partitions[tp.partition].node

    def _found(self, name: str, partition: int | None, deadline: Deadline, is_new: bool = False) -> Task[TopicMetadata]:
        known = self._topics.get(name)
        if not is_new and known is not None and not _missing(known, partition, self._cluster.brokers):
            return known
        patience = Deadline(min(_PATIENCE, deadline.remaining()))
        while True:
            try:
                metadata = yield from self._cluster.ask([name], deadline)
                topic = metadata.topics.get(name)
                trouble = _missing(topic, partition, metadata.brokers)
            except ConnectionLost as lost:
                topic, trouble = None, str(lost)
            if topic is not None and topic.error not in _PASSING:
                raise error_of(topic.error, f"writing to {name}", name)
            if topic is not None and not trouble:
                if known is not None and known.topic_id != topic.topic_id:
                    raise Restart(f"writing to {name}: the topic was created anew")
                self._topics[name] = topic
                return topic
            if patience.expired():
                raise Restart(f"writing to {name}: {trouble}")
            yield from pause(_PAUSE)


def _missing(topic: TopicMetadata | None, partition: int | None, brokers: Container[int]) -> str:
    """What is missing for writing to a partition, in words; empty if nothing is."""
    if topic is None or topic.error or topic.topic_id is None or not topic.partitions:
        return "the target does not know the topic"
    if partition is None:
        return ""
    leader = topic.partitions.get(partition)
    if leader is None:
        return f"it has {plural(len(topic.partitions), 'partition')}, and none is number {partition}"
    return "" if leader.node in brokers else f"nobody leads partition {partition}"
