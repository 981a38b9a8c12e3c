"""A mapper's heartbeats, which continue when a single one fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from k2k_assets.coordination import heartbeats
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.groups.heartbeat import mapper_heartbeats
from k2k_assets_tests.support.copies.pipelines import make_pipeline


@pytest.mark.parametrize(
    "error", [ClusterUnreachable("no answer"), KafkaException(KafkaError(KafkaError._UNKNOWN_TOPIC)), BufferError()]
)
def test_one_that_cannot_be_written_is_not_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Who is silent counts as dead: its run would be reported as failed while it moves groups."""
    written: list[bytes] = []

    class Writer:
        def __init__(self, *_: object) -> None:
            self.failed = 0

        def write(self, records: list[tuple[bytes, bytes]]) -> None:
            if not self.failed:
                self.failed += 1
                raise error
            written.extend(value for _, value in records)

    monkeypatch.setattr(heartbeats, "AssignmentWriter", Writer)
    assignment: dict[str, Any] = {"topic": "claims", "graceWindow": "600 milliseconds"}
    pipeline = make_pipeline(tmp_path, "s:9092", "t:9092", "t", coordination={"assignment": assignment})
    with mapper_heartbeats(pipeline):
        wait_until(lambda: written, 120, "a heartbeat after the one that failed")
