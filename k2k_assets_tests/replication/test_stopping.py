"""How runs end on purpose: what is in hand is committed, partitions and claims are released, the next run goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from k2k_assets.deadline import wait_until
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.extent import Continuous, Window
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.copying import (
    Running,
    assert_exact_mappings,
    assert_same_content,
    commit_records,
    copy,
)
from k2k_assets_tests.support.kafka import SECONDS, create_topic, produce, producer, read_all, send, unique
from k2k_assets_tests.support.pipelines import make_pipeline

pytestmark = pytest.mark.integration


@pytest.fixture
def topic(clusters: KafkaSandbox) -> str:
    return create_topic(clusters.source_servers, unique("stopped"), 2)


@pytest.fixture
def make(clusters: KafkaSandbox, tmp_path: Path, topic: str) -> Callable[[str], Pipeline]:
    def make_one(mode: str) -> Pipeline:
        return make_pipeline(
            tmp_path,
            clusters.source_servers,
            clusters.target_servers,
            [topic],
            features={"exactlyOnce": mode, "offsetMapping": "enabled", "headerReplication": "enabled"},
        )

    return make_one


@contextmanager
def traffic(servers: str, topic: str) -> Iterator[None]:
    """A record each few milliseconds, until the block ends."""
    end = threading.Event()

    def write() -> None:
        client = producer(servers)
        count = 0
        while not end.wait(0.003):
            send(client, topic, [b"%d" % count], count % 2)
            count += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        end.set()
        writer.join(SECONDS)


def assert_released(pipeline: Pipeline, target: str) -> None:
    """The newest commit record of each partition is a release, and no claim is left."""
    newest = {r.source: r for r in commit_records(pipeline, target)}
    assert {r.kind for r in newest.values()} == {"release"}
    assert {r.reason for r in newest.values()} == {None}
    claims = {
        r.key: r.value for r in read_all(target, pipeline.coordination.assignment.topic) if b'"claim"' in (r.key or b"")
    }
    assert claims
    assert set(claims.values()) == {None}


def both_copied(running: Running) -> bool:
    """Both slots are at work: one that was stopped before it started leaves no record."""
    return running.progress is not None and all(p.records > 20 for p in running.progress.partitions.values())


@pytest.mark.parametrize("mode", ["enabled", "disabled"])
def test_a_stop_commits_releases_and_the_next_run_goes_on(
    clusters: KafkaSandbox, make: Callable[[str], Pipeline], topic: str, mode: str
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    pipeline = make(mode)
    with traffic(source, topic):
        running = Running(pipeline, 2)
        wait_until(lambda: both_copied(running), SECONDS, "some records of both partitions to be copied")
        running.stop.set()
        asked = time.monotonic()
        running.join()
        seconds = time.monotonic() - asked
    assert running.error is None
    assert seconds < 5
    assert_released(pipeline, target)
    copied = read_all(target, topic)
    newest = {r.source.partition: r.position for r in commit_records(pipeline, target)}
    assert len(copied) == sum(newest.values())

    rest = copy(pipeline).topics[topic]

    assert rest.records > 0
    assert {p: o.start for p, o in rest.partitions.items()} == newest
    assert_same_content(source, topic, target)
    assert_exact_mappings(pipeline, source, target, topic)
    assert_released(pipeline, target)


def test_a_stop_that_came_before_the_start(clusters: KafkaSandbox, make: Callable[[str], Pipeline], topic: str) -> None:
    produce(clusters.source_servers, topic, [b"a"] * 3, 0)
    stop = threading.Event()
    stop.set()
    pipeline = make("enabled")
    began = time.monotonic()
    copy(pipeline, Continuous(), stop=stop)
    assert time.monotonic() - began < 10
    copy(pipeline)
    assert_same_content(clusters.source_servers, topic, clusters.target_servers)


def test_a_window_is_over_in_time_and_the_next_one_goes_on(
    clusters: KafkaSandbox, make: Callable[[str], Pipeline], topic: str
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    pipeline = make("enabled")
    with traffic(source, topic):
        first = copy(pipeline, Window(timedelta(seconds=1.5), timedelta(minutes=1)))
        assert_released(pipeline, target)
        assert 1.4 < first.seconds < 15
        assert first.topics[topic].records > 0
    second = copy(pipeline, Window(timedelta(minutes=1), timedelta(seconds=1)))
    assert 1 < second.seconds < 15
    assert second.topics[topic].lag == 0
    assert first.topics[topic].records + second.topics[topic].records == assert_same_content(source, topic, target)
    assert_exact_mappings(pipeline, source, target, topic)
    assert_released(pipeline, target)
