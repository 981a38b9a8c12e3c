"""Commit records for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.topic_partition import TopicPartition

_RECORD = CommitRecord(
    "g", "c", TopicPartition("t", 0), "commit", "p", 0, None, "id", "t", "target id", None, 1, 0, 0, 0
)


def commit_record(partition: TopicPartition, /, **fields: Any) -> CommitRecord:
    """One, with only what matters."""
    return replace(_RECORD, source=partition, **fields)
