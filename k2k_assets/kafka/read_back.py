"""Reads target offsets back, to tell transaction markers and aborted records from records that readers see."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.log_reader import LogReader, NotReadToTheEnd

EndsOfCommitted = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int]]
"""`ends_of_committed` of one cluster."""

_TIMEOUT = 10.0
_FIRST_LOOK = 100


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


def ends_of_committed(
    target: Cluster, properties: Mapping[str, Any], below: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Offset after the last committed record below an offset; the log start if there is none.

    Args:
        target: The target cluster.
        properties: Consumer settings for the target, librdkafka names.
        below: By target partition: offsets from here on do not count.

    Raises:
        ClusterUnreachable: The records cannot be read in time.
    """
    starts, stable = (target.led_offsets(below, which).offsets for which in ("earliest", "stable"))
    found = {tp: starts.get(tp, end) for tp, end in below.items()}
    left = {tp: min(end, stable.get(tp, end)) for tp, end in below.items()}
    size = _FIRST_LOOK
    while left := {tp: end for tp, end in left.items() if end > found[tp]}:
        begins = {tp: max(found[tp], end - size) for tp, end in left.items()}
        last = _last_committed(target, properties, begins, left)
        found |= {tp: offset + 1 for tp, offset in last.items()}
        left = {tp: begin for tp, begin in begins.items() if tp not in last}
        size *= 10
    return found


def _last_committed(
    target: Cluster,
    properties: Mapping[str, Any],
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The last committed record between two offsets, of the partitions that have one there."""
    last: dict[TopicPartition, int] = {}
    with LogReader(properties, begins, committed_only=True) as reader:
        try:
            for message in (each for batch in reader.read_until(ends, Deadline(_TIMEOUT)) for each in batch):
                tp, offset = TopicPartition(str(message.topic()), message.partition() or 0), message.offset() or 0
                if offset < ends[tp]:
                    last[tp] = max(offset, last.get(tp, offset))
        except NotReadToTheEnd as behind:
            raise ClusterUnreachable(f"the {target} could not be read back: {behind}") from None
    return last
