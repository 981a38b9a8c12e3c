"""Runs that are stopped: pending records are committed, claims are released, and the next run continues."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver import job_watch
from k2k_assets.replication.extent import Continuous, Window
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot import slot
from k2k_assets.replication.slot.task import SlotResult
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.librdkafka.control_writer import TransactionalWriter
from k2k_assets.transport.record_batch.writing.batch_control_writer import BatchControlWriter
from k2k_assets_tests.support.brokers.kafka import PATIENCE, create_topic, produce, producer, read_all, send, unique
from k2k_assets_tests.support.copies.copying import (
    Running,
    assert_exact_mappings,
    assert_same_content,
    commit_records,
    copy,
    in_threads,
)
from k2k_assets_tests.support.copies.numbered import NumberedWriter
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.proof.verifying import verify
from k2k_assets_tests.support.suite.storms import MODES

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
        writer.join(PATIENCE)


def assert_released(pipeline: Pipeline, target: str) -> None:
    """The newest commit record of each partition is a release, and no claim is left."""
    newest = {r.source: r for r in commit_records(pipeline, target)}
    assert {r.kind for r in newest.values()} == {"release"}
    assert {r.reason for r in newest.values()} == {None}
    claims = {
        r.key: r.value
        for r in read_all(target, pipeline.coordination.assignment.topic, isolation="read_uncommitted")
        if b'"claim"' in (r.key or b"")
    }
    assert claims
    assert set(claims.values()) == {None}


def both_copied(running: Running) -> bool:
    """Both slots are at work: one that was stopped before it started leaves no record."""
    return running.progress is not None and all(p.records > 20 for p in running.progress.partitions.values())


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["enabled", "disabled"])
def test_a_stop_commits_releases_and_the_next_run_goes_on(
    clusters: KafkaSandbox, make: Callable[[str], Pipeline], topic: str, mode: str
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    pipeline = make(mode)
    with traffic(source, topic):
        running = Running(pipeline, 2)
        wait_until(lambda: both_copied(running), PATIENCE, "some records of both partitions to be copied")
        running.stop.set()
        asked = time.monotonic()
        running.join()
        seconds = time.monotonic() - asked
    assert running.error is None
    assert seconds < PATIENCE
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
    assert time.monotonic() - began < PATIENCE
    copy(pipeline)
    assert_same_content(clusters.source_servers, topic, clusters.target_servers)


@MODES
def test_a_stop_is_not_waited_for_long_where_the_target_takes_nothing(
    clusters: KafkaSandbox, make: Callable[[str], Pipeline], topic: str, mode: str
) -> None:
    """Its leader may be gone for good: the slot leaves, and what it has claimed is fenced by the next run.

    It has sent records by then that it could not commit: they come again, and at least once they are there already.
    """
    source, target = clusters.source_servers, clusters.target_servers
    writer = NumberedWriter(source, [], 0)
    writer.write(3, topic, 0, "plain")
    pipeline = make(mode)

    def refuse(*_: object) -> None:
        raise Restart("not enough replicas")

    running = Running(pipeline, 1)
    running.await_copied(3)
    with (
        patch.multiple(TransactionalWriter, open=refuse, commit=refuse),
        patch.multiple(BatchControlWriter, open=refuse, commit=refuse),
        patch.object(slot, "_LEAVE_SECONDS", 1.0),
    ):
        writer.write(3, topic, 0, "plain")
        wait_until(lambda: len(read_all(target, topic, 0, "read_uncommitted")) > 3, PATIENCE, "more to be sent")
        running.end()
    copy(pipeline)
    verdict = verify(pipeline, source, target, [topic])
    assert (verdict.records, verdict.problems) == (6, [])
    assert (verdict.copies > 6) == (mode == "disabled")
    assert_exact_mappings(pipeline, source, target, topic)


def test_a_stop_is_asked_for_again_where_somebody_has_removed_the_record(
    clusters: KafkaSandbox, make: Callable[[str], Pipeline], tmp_path: Path
) -> None:
    """Who announces himself removes the records of instances without claims: this one's slots have none yet."""
    other = make_pipeline(
        tmp_path,
        clusters.source_servers,
        clusters.target_servers,
        [create_topic(clusters.source_servers, unique("other"), 1)],
    )
    pipeline = make("enabled")
    pipeline = pipeline.model_copy(update={"coordination": other.coordination, "source": other.source})
    begun, go = threading.Event(), threading.Event()

    def slow(plans: Sequence[SlotPlan]) -> list[SlotResult]:
        begun.set()
        assert go.wait(PATIENCE)
        return in_threads(plans)

    with patch.object(job_watch, "_ASK_AGAIN_SECONDS", 0.5):
        running = Running(pipeline, 1, slow)
        assert begun.wait(PATIENCE)
        running.stop.set()
        wait_until(lambda: stops(pipeline, clusters), PATIENCE, "the stop")
        copy(other)
        go.set()
        running.join()
    assert running.error is None


@MODES
def test_slots_that_spark_has_lost_sight_of_are_told_to_stop(
    clusters: KafkaSandbox, make: Callable[[str], Pipeline], topic: str, mode: str
) -> None:
    """Their job has failed for the driver, who begins a new generation, and they still copy."""
    produce(clusters.source_servers, topic, [b"a"] * 3, 0)
    pipeline = make(mode)
    ended = threading.Event()
    lost = threading.Event()

    def copy_on(plans: Sequence[SlotPlan]) -> None:
        in_threads(plans)
        ended.set()

    def lose(plans: Sequence[SlotPlan]) -> list[SlotResult]:
        if lost.is_set():
            assert ended.wait(PATIENCE), "the first slot has ended before the second one claims anything"
            return in_threads(plans)
        threading.Thread(target=copy_on, args=(plans,), daemon=True).start()
        wait_until(lambda: commit_records(pipeline, clusters.target_servers), PATIENCE, "the slot to begin")
        lost.set()
        raise RuntimeError("the stream to the server broke")

    running = Running(pipeline, 1, lose)
    running.await_copied(3)
    produce(clusters.source_servers, topic, [b"b"] * 3, 1)
    running.await_copied(6)
    running.end()
    assert_same_content(clusters.source_servers, topic, clusters.target_servers)


def test_a_stop_that_has_killed_the_slots_too_is_told(
    clusters: KafkaSandbox, make: Callable[[str], Pipeline], caplog: pytest.LogCaptureFixture
) -> None:
    """As a signal to the whole process group does: nothing was committed or released at the end."""
    begun = threading.Event()

    def killed(_: Sequence[SlotPlan]) -> list[SlotResult]:
        begun.set()
        assert running.stop.wait(PATIENCE)
        raise RuntimeError("Python worker exited unexpectedly")

    with caplog.at_level(logging.WARNING, "k2k.replication"):
        running = Running(make("enabled"), 1, killed)
        assert begun.wait(PATIENCE)
        running.end()
    assert "the Spark job failed while it was to stop: Python worker exited unexpectedly." in caplog.text


def stops(pipeline: Pipeline, clusters: KafkaSandbox) -> bool:
    """Whether a stop record was written; whether it was removed since does not matter."""
    records = read_all(clusters.target_servers, pipeline.coordination.assignment.topic, isolation="read_uncommitted")
    return any(b'"stop"' in (record.key or b"") for record in records)


@pytest.mark.slow
def test_a_window_is_over_in_time_and_the_next_one_goes_on(
    clusters: KafkaSandbox, make: Callable[[str], Pipeline], topic: str
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    pipeline = make("enabled")
    with traffic(source, topic):
        first = copy(pipeline, Window(timedelta(seconds=20), timedelta(minutes=1)))
        assert_released(pipeline, target)
        assert 19.9 < first.seconds < 140
        assert first.topics[topic].records > 0
    second = copy(pipeline, Window(timedelta(minutes=5), timedelta(seconds=3)))
    assert 3 < second.seconds < 120
    assert second.topics[topic].lag == 0
    assert first.topics[topic].records + second.topics[topic].records == assert_same_content(source, topic, target)
    assert_exact_mappings(pipeline, source, target, topic)
    assert_released(pipeline, target)
