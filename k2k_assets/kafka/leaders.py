"""Ends of partitions of which some may have no leader: a node of the cluster is down, and it alone holds them."""

from __future__ import annotations

from collections.abc import Iterable

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.answers import NoLeader
from k2k_assets.kafka.cluster import Cluster, Which


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
        patience: As for `Cluster.offsets`.

    Raises:
        ClusterUnreachable: No broker answers.
        Refused: The principal may not describe one of them.
    """
    try:
        return cluster.offsets(partitions, which, without_leader, patience)
    except NoLeader as error:
        without_leader.update(error.reasons)
        return {}
