"""Log starts and ends of partitions that may have no leader, because the only broker that holds them is down."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.cluster_offsets import LedOffsets, Which

END_UNKNOWN = -1
"""Stands for the end of a partition that had no leader when the slots were planned."""

# An election is over within so many seconds; a leader that appears later is found by the next request.
ELECTION_SECONDS = 3.0


class LedRanges(NamedTuple):
    """Log starts and ends of the partitions that have a leader.

    Attributes:
        starts: Log starts.
        ends: Ends, asked for after the starts; a partition that lost its leader in between has none.
        offline: Partitions without a leader, with the reason.
    """

    starts: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]
    offline: dict[TopicPartition, str]


def ranges_where_led(cluster: Cluster, partitions: Iterable[TopicPartition], which: Which) -> LedRanges:
    """Asks for log starts and then for ends of the partitions that have a leader.

    Args:
        cluster: The cluster to ask.
        partitions: Existing partitions.
        which: The kind of end, see `Cluster.offsets`.

    Raises:
        ClusterUnreachable: No broker answers.
        Refused: The principal may not describe one of the topics.
    """
    starts, offline = cluster.led_offsets(partitions, "earliest")
    ends, more = cluster.led_offsets(starts, which)
    return LedRanges(starts, ends, offline | more)


def ends_of_each_topic(
    cluster: Cluster, partitions: Collection[TopicPartition], which: Which, patience: float = ELECTION_SECONDS
) -> LedOffsets:
    """The answers of `Cluster.led_offsets`, where a topic that the principal may not see any more counts as offline.

    So it delays no other topic; its slot will stop it.

    Args:
        cluster: The cluster to ask.
        partitions: Existing partitions.
        which: The kind of offset, see `Cluster.offsets`.
        patience: Seconds to wait for leaders.
    """
    return _of_each_topic(cluster, partitions, lambda those: cluster.led_offsets(those, which, patience))


def times_of_each_topic(
    cluster: Cluster, partitions: Collection[TopicPartition], timestamp: int, patience: float = ELECTION_SECONDS
) -> LedOffsets:
    """The answers of `Cluster.led_offsets_at`, as `ends_of_each_topic`.

    Args:
        cluster: The cluster to ask.
        partitions: Existing partitions.
        timestamp: Milliseconds since the epoch, UTC.
        patience: Seconds to wait for leaders.
    """
    return _of_each_topic(cluster, partitions, lambda those: cluster.led_offsets_at(those, timestamp, patience))


def _of_each_topic(
    cluster: Cluster, partitions: Collection[TopicPartition], ask: Callable[[Collection[TopicPartition]], LedOffsets]
) -> LedOffsets:
    try:
        return ask(partitions)
    except Refused as reason:
        seen = cluster.describe_async({tp.topic for tp in partitions}, partly=True)()
        hidden = {tp: str(reason) for tp in partitions if tp.topic not in seen}
        left = [tp for tp in partitions if tp.topic in seen]
    try:
        offsets, offline = ask(left) if left else LedOffsets({}, {})
    except Refused as reason:  # another topic was hidden meanwhile
        offsets, offline = {}, dict.fromkeys(left, str(reason))
    return LedOffsets(offsets, hidden | offline)
