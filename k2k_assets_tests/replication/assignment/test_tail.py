"""How long a slot has been silent, by what was read of the assignment topic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from k2k_assets.replication.assignment import tail as module
from k2k_assets.replication.assignment.records import PARTITION, Claim, beat_key, time_value
from k2k_assets.replication.assignment.tail import AssignmentTail
from k2k_assets.topic_partition import TopicPartition
from k2k_assets_tests.support.fake_transport import FakeCluster
from k2k_assets_tests.support.pipelines import make_pipeline

GROUP, OWNER = "k2k.g", (7, 0)
CLAIM = Claim("s", 0, "id", "claim", *OWNER, "orders")
CLAIMED = (CLAIM.key_bytes(GROUP), CLAIM.value_bytes(1))
BEAT, FAREWELL = ((beat_key(GROUP, *OWNER), value) for value in (time_value(1), None))

Hear = Callable[..., float]


@pytest.fixture
def hear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hear:
    """Reads records at a time, in one batch; returns how long the owner has been silent then."""
    now = 0.0
    batches: list[list[Any]] = []
    offset = 0
    monkeypatch.setattr(module, "LogReader", lambda *_, **__: SimpleNamespace(poll=lambda _: batches.pop()))
    kafka = {"common": {"bootstrap.servers": "a:1"}, "consumer": {"group.id": GROUP}}
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["orders"], source={"kafka": kafka})
    target: Any = FakeCluster({}, ends={TopicPartition(pipeline.coordination.assignment.topic, PARTITION): 0})
    tail = AssignmentTail(pipeline, target, lambda: now)

    def hear(at: float, *records: tuple[bytes, bytes | None]) -> float:
        nonlocal now, offset
        now = at
        batch = []
        for key, value in records:
            batch.append(SimpleNamespace(offset=lambda at=offset: at, key=lambda k=key: k, value=lambda v=value: v))
            offset += 1
        batches.append(batch)
        tail.look()
        return tail.silence(OWNER)

    return hear


def test_silence_counts_from_when_the_last_sign_was_read(hear: Hear) -> None:
    assert hear(10, CLAIMED) == 0
    assert hear(15) == 5
    assert hear(16, BEAT) == 0
    assert hear(20, FAREWELL) == 4


def test_one_that_said_farewell_and_left_a_claim_is_silent_all_the_same(hear: Hear) -> None:
    """Two attempts of one slot: one ends, and the other dies before its next beat. Both are read later, at once."""
    assert hear(10, CLAIMED, FAREWELL) == 0
    assert hear(70) == 60, "or its claim would hold the partition for ever"
    assert hear(80, BEAT) == 0, "it lives"
