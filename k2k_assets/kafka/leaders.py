"""Ends of partitions of which some may have no leader: a node of the cluster is down, and it alone holds them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.answers import NoLeader
from k2k_assets.kafka.cluster import Cluster, Which

END_UNKNOWN = -1
"""The end of a partition that had no leader when its run was planned."""

# A leader is elected by then; one that comes later is found by the next look.
ELECTION_SECONDS = 3.0


class LedOffsets(NamedTuple):
    """Offsets of those partitions that have a leader, and why there are none of the others.

    Attributes:
        offsets: By partition; without those that do not exist.
        offline: Partitions that have no leader, or may not be seen, with the reason.
    """

    offsets: dict[TopicPartition, int]
    offline: dict[TopicPartition, str]


class LedRanges(NamedTuple):
    """Log starts and ends of those partitions that have a leader.

    Attributes:
        starts: Log start of each.
        ends: Its end, asked for after the start; one that lost its leader in between has none.
        offline: Partitions that have no leader, with the reason.
    """

    starts: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]
    offline: dict[TopicPartition, str]


def offsets_where_led(
    cluster: Cluster, partitions: Iterable[TopicPartition], which: Which, patience: float = 0
) -> LedOffsets:
    """As `Cluster.offsets`, of those partitions that have a leader; there may be none.

    Args:
        cluster: Is asked.
        partitions: Existing partitions.
        which: As for `Cluster.offsets`.
        patience: As for `Cluster.offsets`; `ELECTION_SECONDS` gives a leader time to be elected.

    Raises:
        ClusterUnreachable: No broker answers.
        Refused: The principal may not describe one of them.
    """
    offline: dict[TopicPartition, str] = {}
    try:
        return LedOffsets(cluster.offsets(partitions, which, offline, patience), offline)
    except NoLeader as error:
        return LedOffsets({}, offline | error.reasons)


def ranges_where_led(cluster: Cluster, partitions: Iterable[TopicPartition], which: Which) -> LedRanges:
    """Log starts, then ends, of those partitions that have a leader.

    Args:
        cluster: Is asked.
        partitions: Existing partitions.
        which: The kind of end, as for `Cluster.offsets`.

    Raises:
        ClusterUnreachable: No broker answers.
        Refused: The principal may not describe one of them.
    """
    starts, offline = offsets_where_led(cluster, partitions, "earliest")
    ends, more = offsets_where_led(cluster, starts, which)
    return LedRanges(starts, ends, offline | more)


def ends_of_each_topic(
    cluster: Cluster, partitions: Collection[TopicPartition], which: Which, patience: float = ELECTION_SECONDS
) -> LedOffsets:
    """As `offsets_where_led`; a topic that may not be seen any more is stopped by its slot, and holds up no others.

    Args:
        cluster: Is asked.
        partitions: Existing partitions.
        which: As for `Cluster.offsets`.
        patience: As for `Cluster.offsets`.
    """
    try:
        return offsets_where_led(cluster, partitions, which, patience)
    except Refused as reason:
        seen = cluster.describe_async({tp.topic for tp in partitions}, partly=True)()
        hidden = {tp: str(reason) for tp in partitions if tp.topic not in seen}
        left = [tp for tp in partitions if tp.topic in seen]
    try:
        offsets, offline = offsets_where_led(cluster, left, which, patience) if left else LedOffsets({}, {})
    except Refused as reason:  # of another one by now
        offsets, offline = {}, dict.fromkeys(left, str(reason))
    return LedOffsets(offsets, hidden | offline)
