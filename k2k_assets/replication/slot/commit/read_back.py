"""Reads target offsets back, to tell transaction markers and aborted records from foreign records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.log_reader import LogReader, NotReadToTheEnd

_TIMEOUT = 10.0


def count_records(
    target: Cluster, properties: Mapping[str, Any], tp: TopicPartition, start: int, end: int, committed_only: bool
) -> int:
    """Counts the records from `start` to `end` (exclusive).

    If an open transaction blocks the read, that counts as one record: the transaction is not ours, because the former
    holder of our slot's id is fenced.

    Args:
        target: The target cluster.
        properties: Consumer settings for the target, librdkafka names.
        tp: Target partition.
        start: First offset; records that retention has deleted do not count.
        end: Offset after the last.
        committed_only: Whether aborted records do not count.

    Raises:
        ClusterUnreachable: The records cannot be read in time.
    """
    start = max(start, target.offsets([tp], "earliest").get(tp, end))
    found = 0
    if start >= end:
        return found
    with LogReader(properties, {tp: start}, committed_only) as reader:
        try:
            for batch in reader.read_until({tp: end}, Deadline(_TIMEOUT)):
                found += sum(1 for message in batch if message.offset() < end)
        except NotReadToTheEnd as behind:
            if committed_only and target.offsets([tp], "stable").get(tp, end) < end:
                return found + 1
            raise ClusterUnreachable(f"{tp} on the {target} could not be read back: {behind}") from None
    return found
