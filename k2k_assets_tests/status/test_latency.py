"""From a record's timestamp to its commit, measured at the newest commits."""

from __future__ import annotations

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.status.latency import latencies
from k2k_assets_tests.status.records import commit_record

ONE, OTHER, UNKNOWN = (TopicPartition("t", n) for n in range(3))


def test_each_partition_by_itself_and_never_less_than_nothing() -> None:
    commits = [commit_record(tp, position=5, time=10_000) for tp in (ONE, OTHER, UNKNOWN)]
    assert latencies(commits, {ONE: 9_750, OTHER: 10_400}) == {ONE: 0.25, OTHER: 0.0}
