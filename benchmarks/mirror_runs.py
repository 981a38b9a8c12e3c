"""Copies the loads with MirrorMaker 2, and measures the same as of this project.

It is frozen while a topic is filled, so that it finds all records at once, as a replicator does that catches up.
What it has copied is deleted before the next pass.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaTopicPartition

from benchmarks import latency
from benchmarks.copying import HEADERS, Copied, row
from benchmarks.lab import Lab, create_topic, delete_records, delete_topics
from benchmarks.mirror_maker import MODES, QUICK, TUNED, MirrorMaker, Mode
from benchmarks.report import progress, say, table
from benchmarks.sampling import Sampler
from benchmarks.sizes import Load, Sizes
from k2k_assets.core.deadline import Deadline, wait_until
from k2k_assets.core.topic_partition import TopicPartition

_START_SECONDS = 120.0
_PASS_SECONDS = 300.0
_STILL_SECONDS = 3.0
_LOOK_SECONDS = 0.05
_TAIL = 2000

Ends = Mapping[TopicPartition, int]


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


def measure_copies(lab: Lab, sizes: Sizes) -> list[list[str]]:
    """Rows of the table of copies."""
    rows = []
    for mode in MODES[: sizes.mirror_modes]:
        for load in sizes.loads:
            lab.ensure_loaded(load)
        with MirrorMaker(lab, f"mirror-{mode.alias}", mode, [load.topic for load in sizes.loads], TUNED) as mirror:
            _warm_up(lab, mode, sizes, mirror)
            for load in sizes.loads:
                runs = [_pass(lab, mode, load, mirror) for _ in range(sizes.repeat)]
                rows.append(row("MirrorMaker 2", load, mode.title, runs, _note(lab, mode, load)))
                say(table(HEADERS, rows[-1:]).splitlines()[-1])
            progress(f"settings in force: {mirror.settings_in_force()}")
        delete_topics(lab.target, [_target(mode, load.topic) for load in sizes.loads])
    return rows


def measure_latency(lab: Lab, sizes: Sizes) -> list[list[str]]:
    """Rows of the table of latencies."""
    rows = []
    for rate, mode in product(latency.RATES, MODES[: min(2, sizes.mirror_modes)]):
        create_topic(lab.source, latency.TOPIC, rate.partitions)
        with MirrorMaker(lab, f"mirror-latency-{mode.alias}", mode, [latency.TOPIC], QUICK) as mirror:
            seen = latency.latencies(lab, _target(mode, latency.TOPIC), rate, sizes.seconds, mirror.ensure_running)
        delete_topics(lab.target, [_target(mode, latency.TOPIC)])
        delete_topics(lab.source, [latency.TOPIC])
        rows.append(latency.row("MirrorMaker 2", mode.title, rate, seen))
        say(table(latency.HEADERS, rows[-1:]).splitlines()[-1])
    return rows


def _warm_up(lab: Lab, mode: Mode, sizes: Sizes, mirror: MirrorMaker) -> None:
    """Its first pass: all that is on the source now."""
    names = [_target(mode, load.topic) for load in sizes.loads]
    wait_until(lambda: set(names) <= set(lab.target.topics()), _START_SECONDS, f"{names} on the target")
    for load in sizes.loads:
        _follow(lab, load, mode, dict.fromkeys(lab.target.partitions_of([_target(mode, load.topic)]), 0))
    progress(f"MirrorMaker 2, {mode.title}: warm")


def _pass(lab: Lab, mode: Mode, load: Load, mirror: MirrorMaker) -> Copied:
    source = lab.source.partitions_of([load.topic])
    target = lab.target.partitions_of([_target(mode, load.topic)])
    mirror.pause()
    delete_records(lab.source, lab.source.offsets(source, "latest"))
    before = lab.target.offsets(target, "latest")
    delete_records(lab.target, before)
    lab.write(load)
    with Sampler(lambda: {mirror.pid: "JVM", **lab.broker_processes()}) as sampler:
        mirror.resume()
        moved = _follow(lab, load, mode, before)
    seconds = moved.last - moved.first
    cpu = sampler.cpu_seconds(moved.first, moved.last)
    return Copied(max(seconds, 1e-3), max(1, round(load.records * (1 - moved.early))), cpu)


def _follow(lab: Lab, load: Load, mode: Mode, before: Ends) -> _Moved:
    """Watches the target's ends until they stand still and the last records are those of the source.

    Raises:
        TimeoutError: They are not in time.
    """
    deadline = Deadline(_PASS_SECONDS)
    moved = _Moved()
    start = newest = sum(before.values())
    first = start
    while not deadline.expired():
        time.sleep(_LOOK_SECONDS)
        now = sum(lab.target.offsets(before, "latest").values())
        if now > newest:
            newest, moved.last = now, time.time()
            if not moved.first:
                moved.first, first = moved.last, now
        elif moved.last and time.time() - moved.last > _STILL_SECONDS and _complete(lab, load, mode):
            moved.early = (first - start) / (newest - start)
            return moved
    raise TimeoutError(f"MirrorMaker 2 did not copy {load.title} within {_PASS_SECONDS:g} s")


def _complete(lab: Lab, load: Load, mode: Mode) -> bool:
    return all(
        _last_value(lab, "source", load.topic, p) == _last_value(lab, "target", _target(mode, load.topic), p)
        for p in range(load.partitions)
    )


def _last_value(lab: Lab, role: str, topic: str, partition: int) -> bytes | None:
    """The last record's value; transaction markers may follow it."""
    cluster, servers = (
        (lab.source, lab.sandbox.source_servers) if role == "source" else (lab.target, lab.sandbox.target_servers)
    )
    tp = TopicPartition(topic, partition)
    start, end = cluster.offsets([tp], "earliest")[tp], cluster.offsets([tp], "stable")[tp]
    properties = {"bootstrap.servers": servers, "group.id": "bench", "enable.partition.eof": True}
    consumer = Consumer({**properties, "isolation.level": "read_committed", "fetch.wait.max.ms": 10})
    value: bytes | None = None
    try:
        consumer.assign([KafkaTopicPartition(topic, partition, max(start, end - _TAIL))])
        deadline = Deadline(20.0)
        while not deadline.expired():
            for message in consumer.consume(_TAIL, 0.1):
                if message.error() is not None:
                    return value
                value = message.value()
    finally:
        consumer.close()
    return value


def _note(lab: Lab, mode: Mode, load: Load) -> str:
    """Whether transactions were really used shows in the offsets that their markers take."""
    partitions = lab.target.partitions_of([_target(mode, load.topic)])
    starts, ends = lab.target.offsets(partitions, "earliest"), lab.target.offsets(partitions, "latest")
    markers = sum(ends.values()) - sum(starts.values()) - load.records
    return f"{markers} transaction markers in the last pass"


def _target(mode: Mode, topic: str) -> str:
    return f"{mode.alias}.{topic}"
