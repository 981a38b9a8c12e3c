"""Finds targets that lost copies before this session: their partitions end before what is committed as copied.

What an attempt writes there makes them long again. So this is looked at before the first record is sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from k2k_assets.control.commit_log import CommitLog
from k2k_assets.core.stops.reasons.target_log import TargetTruncated
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.read_back import ends_of_committed
from k2k_assets.replication.plan import PartitionPlan, SlotPlan


def truncated_targets(
    slot: SlotPlan, plans: Sequence[PartitionPlan], log: CommitLog, target: Cluster
) -> dict[TopicPartition, TargetTruncated]:
    """The source partitions whose target partition was truncated, each with its stop.

    Where several partitions feed one, or others write there too, no target end is committed, and nothing is found.

    Args:
        slot: The slot.
        plans: Partitions to copy, into target topics that are still the same.
        log: The commit log.
        target: The target cluster.

    Raises:
        ClusterUnreachable: The target does not answer.
    """
    if not slot.one_to_one:
        return {}
    copied: dict[TopicPartition, tuple[TopicPartition, int]] = {}
    for plan in plans:
        record = log.positions.get(plan.source)
        if record and record.target_topic == plan.target_topic and record.target_end is not None:
            copied[TopicPartition(plan.target_topic, plan.source.partition)] = plan.source, record.target_end
    ends = target.led_offsets(copied, "latest").offsets if copied else {}
    cuts = {at: end for at, end in ends.items() if end < copied[at][1]}
    if cuts and slot.pipeline.features.exactly_once:
        cuts = ends_of_committed(target, slot.pipeline.client_properties("target", "consumer"), cuts)
    return {copied[at][0]: TargetTruncated(copied[at][0], at, copied[at][1], cut) for at, cut in cuts.items()}
