"""Leaders are sought at once, and then less often until one takes something."""

from __future__ import annotations

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.record_batch.writing.leader_search import LeaderSearch
from k2k_assets.transport.record_batch.writing.target_partitions import NOBODY, TargetPartition


def _partition(number: int) -> TargetPartition:
    return TargetPartition(TopicPartition("t", number), bytes(16), 1)


def test_it_is_due_at_once_and_then_later_and_later_until_something_is_taken() -> None:
    search, pauses = LeaderSearch(), []
    assert not search.is_due()
    assert search.patience(7.0) == 7.0
    for _ in range(8):
        search.add(_partition(0), "why")
        pauses.append(round(search.patience(7.0), 2))
        search.take()
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0, 0.5)
    search.succeeded()
    search.add(_partition(0), "why")
    assert search.is_due()


def test_who_is_sought_has_no_leader_and_is_handed_out_once() -> None:
    search, partitions = LeaderSearch(), [_partition(0), _partition(1)]
    for partition in partitions:
        search.add(partition, "the same reason")
    assert [partition.node for partition in partitions] == [NOBODY, NOBODY]
    assert search.reasons() == ["the same reason"]
    assert search.take() == partitions
    assert search.take() == []
    assert not search.is_due()
