"""Runs another action once at an exact step of a copy: an interleaving without a sleep.

Each one is told twice: with the rule that closes it, and with that rule switched off, when the damage must show.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.cluster_offsets import LedOffsets, Which
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.job import Runner
from k2k_assets.replication.driver.outcome import Outcome
from k2k_assets.replication.slot.slot import Slot
from k2k_assets.replication.slot.task import SlotResult
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.sandbox.broker import Broker
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.interface import Position
from k2k_assets.transport.librdkafka import deliveries, transactional_sink
from k2k_assets.transport.record_batch.writing.batch_sink import BatchSink
from k2k_assets_tests.support.brokers.kafka import SECONDS, read_all, unique
from k2k_assets_tests.support.copies.copying import copy, in_threads
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.copies.sources import WrappedSource, wrap_sources

RULE = pytest.mark.parametrize(
    "rule", [pytest.param(True, id="with the rule"), pytest.param(False, id="without it", marks=pytest.mark.storm)]
)

Step = Literal["before write", "after write", "after settle", "before commit", "after commit"]
Action = Callable[[], object]


class Crash(Exception):
    """Ends a slot as SIGKILL would end its process: nothing is aborted, released or said."""


class _HookedSink:
    """A sink that tells of the steps that concern records: a chunk, and the transaction it is in."""

    def __init__(self, sink: Any, passed: Callable[[Step, set[str]], None]) -> None:
        self._sink, self._passed = sink, passed
        self._topics: set[str] = set()
        self._dead = False

    def write(self, chunk: Any) -> Any:
        self._pass("before write", {chunk.source.topic})
        sent = self._sink.write(chunk)
        self._topics.add(chunk.source.topic)
        self._pass("after write", {chunk.source.topic})
        return sent

    def settle(self) -> Any:
        settled = self._sink.settle()
        self._pass("after settle", self._topics)
        return settled

    def commit(self) -> None:
        topics, self._topics = self._topics, set()
        self._pass("before commit", topics)
        self._sink.commit()
        self._pass("after commit", topics)

    def close(self) -> None:
        if not self._dead:
            self._sink.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sink, name)

    def _pass(self, step: Step, topics: set[str]) -> None:
        try:
            self._passed(step, topics)
        except Crash:
            self._dead = True
            raise


def at_step(
    monkeypatch: pytest.MonkeyPatch, step: Step, action: Action, occurrence: int = 1, topic: str | None = None
) -> None:
    """Does something at a step of the slots that start from now on, once over all of them.

    Args:
        monkeypatch: Takes it back.
        step: Of a chunk ("write"), or of a transaction that holds records.
        action: Runs in the slot's thread, which waits for it; may raise `Crash`.
        occurrence: At which such step, from 1.
        topic: Only steps with records of this source topic count.
    """
    make = Slot._sink
    lock, left = threading.Lock(), [occurrence]

    def passed(at: Step, topics: set[str]) -> None:
        if at != step or not topics or (topic is not None and topic not in topics):
            return
        with lock:
            left[0] -= 1
            now = left[0] == 0
        if now:
            action()

    monkeypatch.setattr(Slot, "_sink", lambda slot: _HookedSink(make(slot), passed))


def before_the_first_record(monkeypatch: pytest.MonkeyPatch, action: Action) -> None:
    """Does something when a slot has its positions and is about to read, once."""
    left = [1]

    class Telling(WrappedSource):
        def assign(
            self, positions: Mapping[TopicPartition, Position], keep_waiting: Callable[[], None] | None = None
        ) -> None:
            super().assign(positions, keep_waiting)
            left[0] -= 1
            if left[0] == 0:
                action()

    wrap_sources(monkeypatch, Telling)


class _Interrupted:
    """A producer that does something after the fifth record of a chunk.

    Args:
        producer: The real one.
        action: What to do; what was produced before has arrived by then.
    """

    def __init__(self, producer: Any, action: Action) -> None:
        self._producer, self._action, self._count = producer, action, 0

    def produce(self, *args: Any) -> None:
        self._count += 1
        if self._count == 6:
            self._producer.flush(SECONDS)
            self._action()
        self._producer.produce(*args)

    def poll(self, timeout: float = 0) -> int:
        served: int = self._producer.poll(timeout)
        return served


def inside_chunks(
    monkeypatch: pytest.MonkeyPatch, topic: str, around: Callable[[], Action], times: int
) -> Sequence[int]:
    """Does something in the middle of the next chunks that go to a topic of the target.

    Where they go as whole batches, it is between two of them: the first five records are one of their own.

    Args:
        monkeypatch: Takes it back.
        topic: Which.
        around: Called before the first record; what it returns, after the fifth.
        times: In how many chunks.

    Returns:
        How many records each of them had, as it happens.
    """
    real, hit = deliveries.produce_chunk, list[int]()

    def produce_chunk(producer: Any, chunk: Any, *rest: Any) -> None:
        if len(hit) < times and len(chunk.records) > 5 and chunk.target_topic == topic:
            hit.append(len(chunk.records))
            producer = _Interrupted(producer, around())
        real(producer, chunk, *rest)

    queue = BatchSink._queue_batches

    def queue_batches(self: BatchSink, chunk: Chunk, partition: int, indexes: Sequence[int], pending: Any) -> None:
        if len(hit) >= times or chunk.count <= 5 or chunk.target_topic != topic:
            queue(self, chunk, partition, indexes, pending)
            return
        hit.append(chunk.count)
        action, first = around(), [at < 5 for at in range(chunk.count)]
        queue(self, chunk.only(first), partition, indexes[:5], pending)
        self._producer.flush()
        action()
        queue(self, chunk.only([not at for at in first]), partition, indexes[5:], pending)

    monkeypatch.setattr(transactional_sink, "produce_chunk", produce_chunk)
    monkeypatch.setattr(BatchSink, "_queue_batches", queue_batches)
    return hit


def crash(pipeline: Pipeline, slots: int = 1, runner: Runner = in_threads) -> None:
    """Runs a pipeline until a slot crashes; its driver goes with it."""
    stop = threading.Event()
    crashed: list[Crash] = []

    def run(plans: Any) -> list[SlotResult]:
        try:
            return runner(plans)
        except Crash as error:
            crashed.append(error)
            raise
        finally:
            stop.set()

    copy(pipeline, cores=slots, runner=run, stop=stop)
    assert crashed


def die() -> None:
    """An action that ends the slot."""
    raise Crash("crashed here")


def copy_alone(pipeline: Pipeline) -> Outcome:
    """Copies all there is with one slot."""
    return copy(pipeline, cores=1)


def pipeline_of(
    clusters: KafkaSandbox,
    directory: Path,
    topics: list[str],
    mode: str = "enabled",
    mapping: str = "enabled",
    consumer: dict[str, str] | None = None,
    commit: dict[str, Any] | None = None,
    **rest: Any,
) -> Pipeline:
    """A pipeline with a group and control topics of its own; who is dead is not waited for.

    Args:
        clusters: Source and target.
        directory: For its file.
        topics: Source topics.
        mode: Exactly once, `enabled` or `disabled`.
        mapping: Offset mapping, likewise. Without it nothing but the commit log tells that a group is not new.
        consumer: More settings of the source's consumer.
        commit: More of `coordination.commit`.
        rest: More sections of the file, and `features` over these.
    """
    features = {"exactlyOnce": mode, "offsetMapping": mapping, "headerReplication": "enabled"}
    return make_pipeline(
        directory,
        clusters.source_servers,
        clusters.target_servers,
        topics,
        consumer={"group.id": unique("group"), **(consumer or {})},
        coordination={
            "commit": {"topic": unique("commits"), **(commit or {})},
            "assignment": {"topic": unique("claims"), "graceWindow": "500 milliseconds"},
        },
        **{**rest, "features": {**features, **rest.get("features", {})}},
    )


def values(servers: str, topic: str, partition: int | None = None) -> list[bytes | None]:
    """The values of a topic, or of one partition."""
    return [record.value for record in read_all(servers, topic, partition)]


def ends_are(monkeypatch: pytest.MonkeyPatch, topic: str, asked: Which, answered: Which) -> None:
    """Who asks for one kind of end of a topic gets another kind."""
    real, led = Cluster.offsets, Cluster.led_offsets

    def instead(partitions: Collection[TopicPartition], which: Which) -> Which:
        return answered if which == asked and any(tp.topic == topic for tp in partitions) else which

    def offsets(self: Cluster, partitions: Any, which: Which) -> dict[TopicPartition, int]:
        wanted = list(partitions)
        return real(self, wanted, instead(wanted, which))

    def led_offsets(self: Cluster, partitions: Any, which: Which, *patience: float) -> LedOffsets:
        wanted = list(partitions)
        return led(self, wanted, instead(wanted, which), *patience)

    monkeypatch.setattr(Cluster, "offsets", offsets)
    monkeypatch.setattr(Cluster, "led_offsets", led_offsets)


def cut_log(broker: Broker, topic: str, end: int) -> None:
    """Cuts the log of partition 0 before an offset, as an unclean election does; `end` begins a batch."""
    broker.stop()
    data = broker.directory / "data"
    (segment,) = (data / f"{topic}-0").glob("*.log")
    batches, at = segment.read_bytes(), 0
    while at < len(batches):
        base, length = struct.unpack_from(">qi", batches, at)
        if base >= end:
            break
        at += 12 + length
    assert at < len(batches), f"{topic} has no batch at {end}"
    segment.write_bytes(batches[:at])
    (data / ".kafka_cleanshutdown").unlink(missing_ok=True)  # so that the broker determines the end of the log again
    broker.start()
