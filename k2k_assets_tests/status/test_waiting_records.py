"""Which partitions are read where more lag than can be read at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.status import waiting_records
from k2k_assets.status.waiting_records import WaitingRecords
from k2k_assets_tests.support.copies.pipelines import make_pipeline

BUSY, QUIET = [TopicPartition("busy", n) for n in range(3)], TopicPartition("quiet", 0)


def test_a_partition_that_stands_still_gets_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that move have the larger lag at each call, and are never known from the one before."""
    monkeypatch.setattr(waiting_records, "_MOST_PARTITIONS", len(BUSY))
    asked: list[set[TopicPartition]] = []

    def read(
        self: WaitingRecords, wanted: Mapping[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, int | None]:
        asked.append(set(wanted))
        return {}

    monkeypatch.setattr(WaitingRecords, "_read", read)
    with WaitingRecords(make_pipeline(tmp_path, "a:1", "b:1", ["busy", "quiet"])) as records:
        for position in (1000, 2000):
            records.oldest({**dict.fromkeys(BUSY, (position, 9000)), QUIET: (7, 10)})
    assert asked[0] == set(BUSY), "those with the largest lag, as long as none is known to stand still"
    assert QUIET in asked[1]
