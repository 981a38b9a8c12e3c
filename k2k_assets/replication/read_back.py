"""Reads a stretch of a target partition back, to tell markers and aborted records from somebody else's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from k2k_assets.deadline import Deadline
from k2k_assets.kafka.log_reader import LogReader, NotReadToTheEnd
from k2k_assets.topic_partition import TopicPartition

_TIMEOUT = 10.0


def count_records(properties: Mapping[str, Any], tp: TopicPartition, start: int, end: int, committed_only: bool) -> int:
    """How many records a reader finds from `start` to `end` (exclusive).

    A stretch that stays unreadable because of an open transaction counts as one record: our own slot is fenced and
    has none open there, so it is somebody else's.

    Args:
        properties: Target consumer settings, librdkafka names.
        tp: Target partition.
        start: First offset.
        end: Offset after the last.
        committed_only: Whether aborted records are passed over.
    """
    found = 0
    with LogReader(properties, {tp: start}, committed_only) as reader:
        try:
            for batch in reader.read_until({tp: end}, Deadline(_TIMEOUT)):
                found += sum(1 for message in batch if message.offset() < end)
        except NotReadToTheEnd:
            return max(found, 1)
    return found
