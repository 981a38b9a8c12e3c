"""Lets another program copy a load again and again, and measures the same as of this project.

It is frozen while a topic is filled, so that it finds all records at once, as a replicator does that catches up.
What it has copied is deleted before the next pass.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from benchmarks.copying import Copied
from benchmarks.held_process import HeldProcess
from benchmarks.lab import Lab, delete_records
from benchmarks.report import progress
from benchmarks.sampling import Sampler
from benchmarks.sizes import Load
from k2k_assets.core.deadline import Deadline, wait_until
from k2k_assets.core.topic_partition import TopicPartition

_START_SECONDS = 120.0
_PASS_SECONDS = 300.0
_STILL_SECONDS = 3.0
_LOOK_SECONDS = 0.05
_TAIL = 2000
_CHUNK = 10_000

Ends = Mapping[TopicPartition, int]
Content = tuple[bytes | None, bytes | None, object, int]
"""Key, value, headers and timestamp."""


@dataclass(slots=True)
class _Moved:
    """How the ends of the target's partitions moved.

    Attributes:
        first: When they first had moved, seconds since the epoch.
        last: When they last had.
        early: Share of the way that was behind them by `first`.
    """

    first: float = 0.0
    last: float = 0.0
    early: float = 0.0


def warm_up(lab: Lab, process: HeldProcess, loads: Iterable[Load], mode: str) -> None:
    """Its first pass: all that is on the source now.

    Raises:
        RuntimeError: It ended.
        TimeoutError: It does not copy all in time.
    """
    for load in loads:
        copy = process.prefix + load.topic
        wait_until(partial(_is_there, lab, process, copy), _START_SECONDS, f"{copy} on the target")
        _follow(lab, load, process, dict.fromkeys(lab.target.partitions_of([copy]), 0))
    progress(f"{process.title}, {mode}: warm")


def measure_pass(lab: Lab, load: Load, process: HeldProcess) -> Copied:
    """Fills the load's topic anew, and measures how it is copied.

    Raises:
        RuntimeError: The process ended, or records are missing on the target.
        TimeoutError: It does not copy all in time.
    """
    source = lab.source.partitions_of([load.topic])
    target = lab.target.partitions_of([process.prefix + load.topic])
    process.pause()
    delete_records(lab.source, lab.source.offsets(source, "latest"))
    before = lab.target.offsets(target, "latest")
    delete_records(lab.target, before)
    lab.write(load)
    with Sampler(lambda: {process.pid: process.role, **lab.broker_processes()}) as sampler:
        process.resume()
        moved = _follow(lab, load, process, before)
    seconds = moved.last - moved.first
    cpu = sampler.cpu_seconds(moved.first, moved.last)
    return Copied(max(seconds, 1e-3), max(1, round(load.records * (1 - moved.early))), cpu)


def missing_and_doubled(lab: Lab, load: Load, process: HeldProcess) -> tuple[int, int]:
    """How many records of the last pass are not on the target, and how many are there too often, by counts.

    Raises:
        TimeoutError: The target cannot be read in time.
    """
    source = lab.source.partitions_of([load.topic])
    starts, ends = lab.source.offsets(source, "earliest"), lab.source.offsets(source, "latest")
    written = {tp.partition: ends[tp] - starts[tp] for tp in source}
    found = _counted(lab, lab.target.partitions_of([process.prefix + load.topic]))
    apart = [written[partition] - found[partition] for partition in written]
    return sum(n for n in apart if n > 0), -sum(n for n in apart if n < 0)


def markers(lab: Lab, load: Load, process: HeldProcess) -> str:
    """Whether transactions were really used shows in the offsets that their markers take."""
    partitions = lab.target.partitions_of([process.prefix + load.topic])
    starts, ends = lab.target.offsets(partitions, "earliest"), lab.target.offsets(partitions, "latest")
    count = sum(ends.values()) - sum(starts.values()) - load.records
    return f"{count} transaction markers in the last pass"


def _is_there(lab: Lab, process: HeldProcess, topic: str) -> bool:
    process.ensure_running()
    return topic in lab.target.topics()


def _follow(lab: Lab, load: Load, process: HeldProcess, before: Ends) -> _Moved:
    """Watches the target's ends until they stand still and the last records are those of the source."""
    deadline = Deadline(_PASS_SECONDS)
    moved = _Moved()
    start = newest = sum(before.values())
    first = start
    while not deadline.expired():
        time.sleep(_LOOK_SECONDS)
        process.ensure_running()
        now = sum(lab.target.offsets(before, "latest").values())
        if now > newest:
            newest, moved.last = now, time.time()
            if not moved.first:
                moved.first, first = moved.last, now
        elif moved.last and time.time() - moved.last > _STILL_SECONDS and _complete(lab, load, process.prefix):
            moved.early = (first - start) / (newest - start)
            return moved
    raise TimeoutError(f"{process.title} did not copy {load.title} within {_PASS_SECONDS:g} s")


def _complete(lab: Lab, load: Load, prefix: str) -> bool:
    return all(
        _last(lab, "source", load.topic, p) == _last(lab, "target", prefix + load.topic, p)
        for p in range(load.partitions)
    )


def _last(lab: Lab, role: str, topic: str, partition: int) -> Content | None:
    """The last record; transaction markers may follow it."""
    cluster, servers = (
        (lab.source, lab.sandbox.source_servers) if role == "source" else (lab.target, lab.sandbox.target_servers)
    )
    tp = TopicPartition(topic, partition)
    start, end = cluster.offsets([tp], "earliest")[tp], cluster.offsets([tp], "stable")[tp]
    consumer = _reader(servers)
    last: Message | None = None
    try:
        consumer.assign([KafkaTopicPartition(topic, partition, max(start, end - _TAIL))])
        deadline = Deadline(20.0)
        while not deadline.expired():
            for message in consumer.consume(_TAIL, 0.1):
                if message.error() is not None:
                    return _content(last)
                last = message
    finally:
        consumer.close()
    return _content(last)


def _content(message: Message | None) -> Content | None:
    if message is None:
        return None
    return message.key(), message.value(), message.headers(), message.timestamp()[1]


def _counted(lab: Lab, partitions: Iterable[TopicPartition]) -> Counter[int]:
    """The number of committed records that are there, by partition."""
    starts = lab.target.offsets(partitions, "earliest")
    found, unread, deadline = Counter[int](), {tp.partition for tp in starts}, Deadline(_PASS_SECONDS)
    consumer = _reader(lab.sandbox.target_servers)
    try:
        consumer.assign([KafkaTopicPartition(tp.topic, tp.partition, start) for tp, start in starts.items()])
        while unread:
            if deadline.expired():
                raise TimeoutError(f"the target was not read to its end within {_PASS_SECONDS:g} s")
            for message in consumer.consume(_CHUNK, 0.1):
                fault = message.error()
                partition = message.partition()
                assert partition is not None
                if fault is None:
                    found[partition] += 1
                elif fault.code() == KafkaError._PARTITION_EOF:
                    unread.discard(partition)
                else:
                    raise RuntimeError(f"the target cannot be read: {fault}")
    finally:
        consumer.close()
    return found


def _reader(servers: str) -> Consumer:
    properties = {"bootstrap.servers": servers, "group.id": "bench", "enable.partition.eof": True}
    own = {"isolation.level": "read_committed", "fetch.wait.max.ms": 10, "enable.auto.commit": False}
    return Consumer({**properties, **own})
