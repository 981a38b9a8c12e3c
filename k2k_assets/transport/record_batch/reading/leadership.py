"""What answers about topics mean for the partitions that are read: a leader, a stop, or patience."""

from __future__ import annotations

import time
from collections.abc import Collection

from k2k_assets.core.stops.reasons.permissions import SourceReadDenied
from k2k_assets.core.stops.reasons.source_topic import SourceDeleted, SourceRecreated
from k2k_assets.transport.record_batch.reading.partitions import NOBODY, ReadPartition, id_text
from k2k_assets.transport.record_batch.wire.control_messages import Metadata

TOPIC_AUTHORIZATION_FAILED = 29
UNKNOWN_TOPIC_OR_PARTITION = 3
# A broker that has just come back knows of no topics for a moment.
_GONE_SECONDS = 5.0


def learn_leaders(partitions: Collection[ReadPartition], found: Metadata) -> None:
    """Notes who leads each partition, and stops those that are not there any more.

    Args:
        partitions: Those that are read.
        found: What a broker says of their topics.
    """
    for partition in partitions:
        if not partition.is_stopped:
            _learn(partition, found)


def _learn(partition: ReadPartition, found: Metadata) -> None:
    name, index = partition.tp
    topic = found.topics.get(name)
    if topic is not None and topic.error == TOPIC_AUTHORIZATION_FAILED:
        partition.stop(SourceReadDenied(name, "the broker does not allow it to be described"))
        return
    leader = None if topic is None else topic.partitions.get(index)
    if topic is None or leader is None:
        partition.seek_leader()
        _count_as_missing(partition, 0 if topic is None else topic.error)
        return
    partition.missing_since = None
    if partition.topic_id not in (None, topic.topic_id):
        expected, now_there = id_text(partition.topic_id), id_text(topic.topic_id)
        partition.stop(SourceRecreated(name, expected, now_there, while_copied=True))
        return
    partition.topic_id = topic.topic_id
    if leader.epoch < partition.leader_epoch:
        return  # this broker has not heard of the newest leader yet
    known = leader.node in found.brokers
    partition.leader, partition.leader_epoch = (leader.node if known else NOBODY), leader.epoch


def _count_as_missing(partition: ReadPartition, error: int) -> None:
    """Stops a partition that brokers have not known for a while; other errors pass."""
    if error not in (0, UNKNOWN_TOPIC_OR_PARTITION):
        return
    now = time.monotonic()
    partition.missing_since = partition.missing_since or now
    if now - partition.missing_since >= _GONE_SECONDS:
        partition.stop(SourceDeleted(partition.tp.topic))
