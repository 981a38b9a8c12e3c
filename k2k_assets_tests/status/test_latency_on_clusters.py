"""The last copied record is found on the source, behind the markers of its own transactions too."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from k2k_assets.control.commit_log import read_commit_log
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.status.latency import CommitLatency
from k2k_assets_tests.support.brokers import kafka
from k2k_assets_tests.support.brokers.kafka import Record
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = pytest.mark.integration


def _old(seconds: float) -> Record:
    return Record(value=b"v", timestamp=round((time.time() - seconds) * 1000))


def test_latency_is_that_of_the_last_record_below_the_position(clusters: KafkaSandbox, tmp_path: Path) -> None:
    source = clusters.source_servers
    topic = kafka.create_topic(source, kafka.unique("latency"), 4)
    pipeline = make_pipeline(
        tmp_path,
        source,
        clusters.target_servers,
        [topic],
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
    )
    kafka.produce(source, topic, [_old(9000), _old(600)], partition=0)
    kafka.produce(source, topic, [_old(9000), _old(300)], partition=1, transactional_id=kafka.unique("writer"))
    kafka.produce(source, topic, [_old(-600)], partition=2)
    copy(pipeline)
    # Later records are not copied, and must not count as copied.
    kafka.produce(source, topic, [_old(1)] * 3, partition=0)
    kafka.produce(source, topic, [_old(1)] * 3, partition=1)
    with both_clusters(pipeline) as (left, right), CommitLatency(pipeline) as latency:
        log = read_commit_log(pipeline, left.cluster_id(), right)
        # As during a copy, because the end of a run releases the partitions.
        commits = [replace(record, kind="commit") for record in log.positions.values()]
        found = {tp.partition: seconds for tp, seconds in latency.measure(commits).items()}
        released = latency.measure([replace(record, kind="release") for record in commits])
    assert found.keys() == {0, 1, 2}, "nothing was ever written to the fourth"
    assert 600 <= found[0] < 9000
    assert 300 <= found[1] < 600
    assert found[2] == 0.0, "produced by a clock that is ahead"
    assert released == {}
