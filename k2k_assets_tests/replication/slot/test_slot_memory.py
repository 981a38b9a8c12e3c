"""What a slot remembers from one session to the next."""

from __future__ import annotations

from k2k_assets.core.stops.reasons.offline_partitions import LeaderMissing
from k2k_assets.core.stops.reasons.source_topic import SourceDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.slot.slot_memory import StallHistory, StoppedPartitions

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_the_first_reason_stays_and_decides_whether_it_is_noted() -> None:
    stopped = StoppedPartitions()
    stopped.stop(P0, SourceDeleted("t"))
    stopped.stop(P0, LeaderMissing("no leader"), is_noted=False)
    stopped.stop(P1, LeaderMissing("no leader"), is_noted=False)
    assert stopped.reasons == {P0: SourceDeleted("t"), P1: LeaderMissing("no leader")}
    assert stopped.to_note() == {P0: SourceDeleted("t")}


def test_stalls_count_since_the_last_commit() -> None:
    stalls = StallHistory()
    assert stalls.since(0) == 0
    stalls.add(0)
    stalls.add(0)
    assert (stalls.since(0), stalls.since(1)) == (2, 0)
    stalls.add(1)
    assert stalls.since(1) == 1
