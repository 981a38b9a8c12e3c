"""`throttle` on real clusters: the rate is kept, topics do not hold each other up, and nothing times out meanwhile."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import Record, create_topic, produce, unique
from k2k_assets_tests.support.copies.copying import (
    Running,
    assert_exact_mappings,
    assert_same_content,
    copy,
    dying_first,
)
from k2k_assets_tests.support.copies.pipelines import MODES, make_pipeline
from k2k_assets_tests.support.copies.takeovers import held_by

pytestmark = pytest.mark.integration


def throttled(clusters: KafkaSandbox, directory: Path, mode: str, topics: list[str], **sections: object) -> Pipeline:
    features = {"exactlyOnce": mode, "offsetMapping": "enabled", "headerReplication": "enabled"}
    return make_pipeline(
        directory, clusters.source_servers, clusters.target_servers, topics, features=features, **sections
    )


def records(count: int, size: int) -> list[Record]:
    """Records whose keys and values are so long together."""
    return [Record(b"%06d" % n, b"%06d" % n + bytes(size - 12)) for n in range(count)]


@MODES
def test_the_slots_of_a_pipeline_share_its_limit(clusters: KafkaSandbox, tmp_path: Path, mode: str) -> None:
    topic = create_topic(clusters.source_servers, unique("slow"), 4)
    for partition in range(4):
        produce(clusters.source_servers, topic, records(100, 1000), partition)
    pipeline = throttled(clusters, tmp_path, mode, [topic], throttle={"bytesPerSecond": 100_000})
    outcome = copy(pipeline).topics[topic]
    assert outcome.records == 400
    # 400 kB in two slots of two partitions, each at half of the limit; what a slot has in hand comes on top.
    assert outcome.seconds > 3.0
    assert assert_same_content(clusters.source_servers, topic, clusters.target_servers) == 400
    assert_exact_mappings(pipeline, clusters.source_servers, clusters.target_servers, topic)


@MODES
def test_a_slow_topic_does_not_hold_up_the_others(clusters: KafkaSandbox, tmp_path: Path, mode: str) -> None:
    slow, fast = (create_topic(clusters.source_servers, unique(name)) for name in ("slow", "fast"))
    produce(clusters.source_servers, slow, records(200, 1000))
    produce(clusters.source_servers, fast, records(5000, 1000))
    rules = [{"pattern": "slow-.*", "bytesPerSecond": 10_000}]
    running = Running(throttled(clusters, tmp_path, mode, [slow, fast], throttle={"topics": rules}), 1)
    wait_until(lambda: _copied(running, fast) == 5000, 120, "the fast topic to be copied")
    began, copied = time.monotonic(), _copied(running, slow)
    assert copied < 150
    wait_until(lambda: _copied(running, slow) == 200, 120, "the slow one to be copied")
    taken = time.monotonic() - began
    running.end()
    assert (200 - copied) / taken < 20, "10 records a second, and what was in hand"
    for topic in (slow, fast):
        assert_same_content(clusters.source_servers, topic, clusters.target_servers)


def _copied(running: Running, topic: str) -> int:
    partitions = running.progress.partitions if running.progress else {}
    return sum(p.records for tp, p in partitions.items() if tp.topic == topic)


@MODES
def test_whoever_waits_long_for_tokens_stays_alive(
    clusters: KafkaSandbox, tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each record is paid for by longer waits than the heartbeat, transaction and poll time-outs are."""
    caplog.set_level(logging.INFO, "k2k")
    topic = create_topic(clusters.source_servers, unique("large"))
    produce(clusters.source_servers, topic, [Record(b"%d" % n, bytes(100_000)) for n in range(3)])
    pipeline = throttled(
        clusters, tmp_path, mode, [topic],
        producer={"transaction.timeout.ms": 5000},
        coordination={"assignment": {"topic": unique("claims"), "graceWindow": "5 seconds"}},
        throttle={"bytesPerSecond": 15_000},
    )  # fmt: skip
    first = Running(pipeline, 1)
    first.await_copied(3)
    produce(clusters.source_servers, topic, [b"lone"])
    first.await_copied(4)
    first.end()
    assert "starts again" not in caplog.text
    assert "fences" not in caplog.text
    assert assert_same_content(clusters.source_servers, topic, clusters.target_servers) == 4


@MODES
def test_a_newer_instance_takes_over_from_one_that_waits_for_tokens(
    clusters: KafkaSandbox, tmp_path: Path, mode: str
) -> None:
    topic = create_topic(clusters.source_servers, unique("large"))
    for n in range(2):  # in two batches
        produce(clusters.source_servers, topic, [Record(b"%d" % n, bytes(200_000))])
    pipeline = throttled(clusters, tmp_path, mode, [topic], throttle={"bytesPerSecond": 1000})
    first = Running(pipeline, 1)
    first.await_copied(1)
    older = held_by(clusters, pipeline, 1)
    second = Running(pipeline, 1)
    # The first one has minutes to wait; the second one begins without debt.
    wait_until(lambda: held_by(clusters, pipeline, 1) > older >= 0, 120, "the newer instance to take over")
    second.await_copied(1)
    second.end()
    first.end()
    assert assert_same_content(clusters.source_servers, topic, clusters.target_servers) == 2


@pytest.mark.parametrize("step", ["write", "before_commit"])
def test_a_killed_slot_goes_on_within_the_limit(clusters: KafkaSandbox, tmp_path: Path, step: str) -> None:
    topic = create_topic(clusters.source_servers, unique("slow"))
    produce(clusters.source_servers, topic, records(300, 1000))
    rules = [{"pattern": "slow-.*", "bytesPerSecond": 50_000}]
    pipeline = throttled(clusters, tmp_path, "enabled", [topic], throttle={"topics": rules})
    assert copy(pipeline, runner=dying_first(step, 5)).stopped == {}
    assert assert_same_content(clusters.source_servers, topic, clusters.target_servers) == 300
    assert_exact_mappings(pipeline, clusters.source_servers, clusters.target_servers, topic)
