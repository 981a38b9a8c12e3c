"""The rows of the commit log: positions with their lag, and stopped partitions."""

from __future__ import annotations

from k2k_assets.core.stops.reasons.source_topic import TopicNotFound
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.status.lag import PartitionLag
from k2k_assets.status.positions import positions_of
from k2k_assets_tests.status.records import commit_record

ONE, OTHER, THIRD = (TopicPartition("orders", n) for n in range(3))


def test_a_row_for_each_partition_in_order() -> None:
    records = {
        OTHER: commit_record(OTHER, position=7, reason=TopicNotFound()),
        ONE: commit_record(ONE, position=5),
        THIRD: commit_record(THIRD, position=9),
    }
    lags = {ONE: PartitionLag(4, 8, 2.5), THIRD: PartitionLag(8, 9, 1.0)}
    one, other, third = positions_of(records, lags)
    assert [row.partition for row in (one, other, third)] == [0, 1, 2]
    assert (one.position, one.source_end, one.lag, one.seconds_behind) == (5, 8, 3, 2.5)
    assert (other.source_end, other.lag, other.seconds_behind) == (None, None, None), "nobody has told"
    assert other.stop_code == "topic-not-found"
    assert other.stop_reason
    assert (one.stop_code, one.stop_reason) == ("", "")
    assert (third.lag, third.seconds_behind) == (0, 0.0), "it has been copied since the lag was seen"
