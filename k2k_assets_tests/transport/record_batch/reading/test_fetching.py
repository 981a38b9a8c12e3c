"""Which partition a leader is asked for first: only the first one's batch comes whole where limits are small."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.record_batch.reading.fetching import Fetching
from k2k_assets.transport.record_batch.reading.partitions import ReadPartition
from k2k_assets.transport.record_batch.wire.tasks import Loop


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_each_partition_comes_first_in_its_turn_however_many_leaders_are_asked(nodes: int) -> None:
    partitions = [ReadPartition(TopicPartition("t", n), 0, -1, leader=n % nodes) for n in range(3 * nodes)]
    fetching = Fetching(cast(Any, SimpleNamespace()), Loop(), cast(Any, None), partitions)
    asked_first = [fetching._in_turn(node)[0].tp for _ in range(3) for node in range(nodes)]
    assert sorted(asked_first) == sorted(partition.tp for partition in partitions)
