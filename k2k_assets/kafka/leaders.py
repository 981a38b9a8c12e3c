"""Ends of partitions of which some may have no leader: a node of the cluster is down, and it alone holds them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.answers import NoLeader
from k2k_assets.kafka.cluster import Cluster, Which

END_UNKNOWN = -1
"""The end of a partition that had no leader when its run was planned."""

# A leader is elected by then; one that comes later is found by the next look.
ELECTION_SECONDS = 3.0


def offsets_where_led(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    which: Which,
    without_leader: dict[TopicPartition, str],
    patience: float = 0,
) -> dict[TopicPartition, int]:
    """As `Cluster.offsets`, of those partitions that have a leader; there may be none.

    Args:
        cluster: Is asked.
        partitions: Existing partitions.
        which: As for `Cluster.offsets`.
        without_leader: Takes the others, with the reason.
        patience: As for `Cluster.offsets`; `ELECTION_SECONDS` gives a leader time to be elected.

    Raises:
        ClusterUnreachable: No broker answers.
        Refused: The principal may not describe one of them.
    """
    try:
        return cluster.offsets(partitions, which, without_leader, patience)
    except NoLeader as error:
        without_leader.update(error.reasons)
        return {}


def ends_of_each_topic(
    cluster: Cluster,
    partitions: Collection[TopicPartition],
    which: Which,
    unknown: dict[TopicPartition, str],
    patience: float = ELECTION_SECONDS,
) -> dict[TopicPartition, int]:
    """As `offsets_where_led`; a topic that may not be seen any more is stopped by its slot, and holds up no others.

    Args:
        cluster: Is asked.
        partitions: Existing partitions.
        which: As for `Cluster.offsets`.
        unknown: Takes the others, with the reason.
        patience: As for `Cluster.offsets`.
    """
    try:
        return offsets_where_led(cluster, partitions, which, unknown, patience)
    except Refused as reason:
        seen = cluster.describe_async({tp.topic for tp in partitions}, partly=True)()
        unknown.update((tp, str(reason)) for tp in partitions if tp.topic not in seen)
        left = [tp for tp in partitions if tp.topic in seen]
    try:
        return offsets_where_led(cluster, left, which, unknown, patience) if left else {}
    except Refused as reason:  # of another one by now
        unknown.update(dict.fromkeys(left, str(reason)))
        return {}
