"""Finds targets that lost copies before this session: their partitions end before what is committed as copied.

What an attempt writes there makes them long again. So this is looked at before the first record is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from k2k_assets.control.commit_log import CommitLog
from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.stops.reasons.target_log import TargetTruncated
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.read_back import count_records, ends_of_committed
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
    copied: dict[TopicPartition, CommitRecord] = {}
    for plan in plans:
        record = log.positions.get(plan.source)
        if record and record.target_topic == plan.target_topic and record.target_end is not None:
            copied[TopicPartition(plan.target_topic, plan.source.partition)] = record
    ends = target.led_offsets(copied, "latest").offsets if copied else {}
    expected = {at: record.target_end or 0 for at, record in copied.items()}
    cuts = {at: end for at, end in ends.items() if end < expected[at]}
    if slot.pipeline.features.exactly_once:
        reader = slot.pipeline.client_properties("target", "consumer")
        cuts = ends_of_committed(target, reader, cuts) if cuts else {}
        # Our last copy and its marker are not the end: what a session tried that could not note that they are gone?
        tried = {at: expected[at] for at, end in ends.items() if end > expected[at] + 1 and _is_our_copy(copied[at])}
        cuts |= _lost(target, reader, tried) if tried else {}
    return {copied[at].source: TargetTruncated(copied[at].source, at, expected[at], cut) for at, cut in cuts.items()}


def _is_our_copy(record: CommitRecord) -> bool:
    """Whether the target end is that of a record of ours, and not of what another tool or others wrote."""
    return record.target_end not in (record.target_began, record.target_accepted)


def _lost(
    target: Cluster, reader: Mapping[str, Any], expected: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The partitions with aborted records right before an offset, and where the last committed one before it ends.

    Retention or compaction may have deleted our last copy, and an open transaction of others may hide it: then nothing
    else is in its place.
    """
    starts, stable = (target.led_offsets(expected, which).offsets for which in ("earliest", "stable"))
    asked = {at: end for at, end in expected.items() if starts.get(at, end) < end <= stable.get(at, -1)}
    found = ends_of_committed(target, reader, asked) if asked else {}
    return {
        at: cut
        for at, cut in found.items()
        if cut < expected[at] and count_records(target, reader, at, cut, expected[at], committed_only=False)
    }
