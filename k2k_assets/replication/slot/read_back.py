"""Reads a stretch of a target partition back, to tell markers and aborted records from somebody else's."""

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
    """How many records a reader finds from `start` to `end` (exclusive).

    A stretch that stays unreadable because of an open transaction counts as one record: our own slot is fenced and
    has none open there, so it is somebody else's.

    Args:
        target: The target cluster.
        properties: Its consumer settings, librdkafka names.
        tp: Target partition.
        start: First offset; what retention has deleted of the stretch is passed over.
        end: Offset after the last.
        committed_only: Whether aborted records are passed over.

    Raises:
        ClusterUnreachable: The target does not let it read in time.
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
