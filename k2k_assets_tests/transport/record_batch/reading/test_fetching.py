"""Which partition a leader is asked for first, and what of its answers counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.interface import Position
from k2k_assets.transport.record_batch.reading.fetching import Fetching
from k2k_assets.transport.record_batch.reading.partitions import ReadPartition
from k2k_assets.transport.record_batch.wire.fetch_messages import EpochEnd, FetchAnswer, FetchedPartition
from k2k_assets.transport.record_batch.wire.tasks import Loop
from k2k_assets.transport.record_batch.wire.traffic import Traffic


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_each_partition_comes_first_in_its_turn_however_many_leaders_are_asked(nodes: int) -> None:
    """Only the first one's batch comes whole where limits are small."""
    partitions = [ReadPartition(TopicPartition("t", n), 0, -1, leader=n % nodes) for n in range(3 * nodes)]
    fetching = Fetching(cast(Any, SimpleNamespace()), Loop(), cast(Any, None), partitions)
    asked_first = [fetching._in_turn(node)[0].tp for _ in range(3) for node in range(nodes)]
    assert sorted(asked_first) == sorted(partition.tp for partition in partitions)


def test_a_former_leader_s_answer_does_not_count_once_the_next_one_has_told_the_epoch() -> None:
    partition = ReadPartition(TopicPartition("t", 0), 100, 7, topic_id=bytes(16), leader=1)
    fetching = Fetching(cast(Any, SimpleNamespace(traffic=Traffic())), Loop(), cast(Any, None), [partition])
    asked = [partition.wanted()]
    told = FetchedPartition(bytes(16), 0, 0, 240, 240, [], EpochEnd(3, 100), memoryview(b""))
    for _ in ("the next one", "the former one"):
        for _ in fetching._take(cast(Any, SimpleNamespace(fetch_version=16)), asked, FetchAnswer(0, 0.0, [told])):
            pass
    assert list(partition.queue) == [Position(100, 3)]
    assert not partition.is_stopped
