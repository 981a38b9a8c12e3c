"""Events of a running replication: each comes once, and their sums agree with the copy."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.stops.reasons.target_topic import TargetDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.driver.events import (
    Committed,
    Ended,
    Event,
    GenerationStarted,
    HandedOver,
    PartitionClaimed,
    PartitionStopped,
    ProgressRead,
)
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, delete_topic, produce, unique
from k2k_assets_tests.support.copies.copying import Running, copy
from k2k_assets_tests.support.copies.takeovers import pipeline_of
from k2k_assets_tests.support.suite.storms import MODES

pytestmark = pytest.mark.integration

E = TypeVar("E")


def _of(events: list[Event], kind: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


@MODES
def test_a_copy_tells_its_generation_its_claims_and_each_commit(
    clusters: KafkaSandbox, tmp_path: Path, mode: str
) -> None:
    topic = create_topic(clusters.source_servers, unique("told"), 2)
    produce(clusters.source_servers, topic, [b"abc"] * 50, 0)
    produce(clusters.source_servers, topic, [b"abc"] * 7, 1)
    events: list[Event] = []
    outcome = copy(pipeline_of(clusters, tmp_path, [topic], mode), listener=events.append)

    (started,) = _of(events, GenerationStarted)
    assert (started.generation, started.partitions, started.slots) == (outcome.generation, 2, 2)
    claimed = _of(events, PartitionClaimed)
    assert {event.partition for event in claimed} == {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    assert len(claimed) == 2
    committed = _of(events, Committed)
    for partition, records in ((0, 50), (1, 7)):
        of_partition = [event for event in committed if event.partition == TopicPartition(topic, partition)]
        assert sum(event.records for event in of_partition) == records
        assert sum(event.bytes for event in of_partition) >= 3 * records, "or more: the bytes of whole batches"
        assert sum(event.runs for event in of_partition) == outcome.topics[topic].partitions[partition].runs
        assert of_partition[-1].position == records
    assert _of(events, PartitionStopped) == []
    assert _of(events, ProgressRead)
    assert events[-1] == Ended(outcome)


def test_who_is_taken_over_from_is_told_by_whom(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = create_topic(clusters.source_servers, unique("told"), 2)
    produce(clusters.source_servers, topic, [b"abc"] * 50, 0)
    pipeline = pipeline_of(clusters, tmp_path, [topic])
    first = Running(pipeline, 2, run="first-run")
    first.await_copied(50)
    second = Running(pipeline, 2, run="second-run")
    wait_until(lambda: _of(first.events, HandedOver) or first.error, 120, "the first instance to be told")
    told = _of(first.events, HandedOver)[-1]
    assert told.nothing_left
    assert set(told.partitions) == {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    (owner,) = told.owners
    assert "Dagster run second-run" in owner
    first.end()
    second.end()


def test_a_stop_is_told_once_and_the_others_go_on(clusters: KafkaSandbox, tmp_path: Path) -> None:
    good, bad = (create_topic(clusters.source_servers, unique(name)) for name in ("good", "bad"))
    pipeline = pipeline_of(clusters, tmp_path, [good, bad])
    running = Running(pipeline, 1)
    for topic in (good, bad):
        produce(clusters.source_servers, topic, [b"abc"] * 5, 0)
    running.await_copied(10)
    delete_topic(clusters.target_servers, bad)
    produce(clusters.source_servers, bad, [b"abc"] * 5, 0)
    wait_until(lambda: _of(running.events, PartitionStopped) or running.error, 120, "the stop to be told")
    produce(clusters.source_servers, good, [b"abc"] * 5, 0)
    running.await_copied(15)

    second = Running(pipeline, 1)
    wait_until(lambda: _of(running.events, HandedOver) or running.error, 120, "the other one to take over")
    assert _of(running.events, HandedOver)[-1].nothing_left, "a stopped partition is none that is left to copy"
    running.end()
    second.end()
    (stopped,) = _of(running.events, PartitionStopped)
    assert stopped.partition == TopicPartition(bad, 0)
    assert isinstance(stopped.reason, TargetDeleted)
