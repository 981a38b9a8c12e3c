"""Measures how long a record takes from `produce()` on the source until a `read_committed` reader on the target has it.

Records come at a steady rate; writer and reader are one process, so both read the same clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaTopicPartition

from benchmarks.driver_process import DriverProcess
from benchmarks.lab import Lab, create_topic, delete_run, delete_topics
from benchmarks.pipelines import BATCHES, Settings, write_pipeline
from benchmarks.report import say, table
from benchmarks.sizes import Sizes
from k2k_assets.core.deadline import Deadline, wait_until
from k2k_assets.kafka.log_reader import LogReader

HEADERS = [
    "what",
    "mode",
    "records/s",
    "samples",
    "median ms",
    "p90 ms",
    "p99 ms",
    "max ms",
    "commits/s",
    "mapping MB/day",
]
TOPIC = "bench-latency"

# As applications do that write many: a request for each record would measure the source's broker.
_MANY, _LINGER_MS = 1000, 2
# Records that the reader takes at once, where they are there.
_AT_ONCE = 1000
# Those that fall into the start are not counted.
_WARM_UP_SECONDS = 5
_ARRIVAL_SECONDS = 30.0
_START_SECONDS = 90.0
_SIZE = 100


@dataclass(frozen=True, slots=True)
class Rate:
    """A steady stream of records.

    Attributes:
        per_second: Records.
        partitions: Of the topic, one after the other.
    """

    per_second: int
    partitions: int


RATES = (Rate(10, 1), Rate(200, 1), Rate(1000, 3), Rate(5000, 3))
_WARM_UP = RATES[-1]
# Brokers that have just started compile their code for a minute of the highest rate; it takes both cores till then.
_BROKERS_WARM_UP_SECONDS = 60


def measure(lab: Lab, sizes: Sizes) -> list[list[str]]:
    """Rows of the table of latencies: both modes of this project and both forms, running continuously."""
    rows: list[list[str]] = []
    modes = (Settings(exactly_once=True), Settings(exactly_once=True, form=BATCHES), Settings(exactly_once=False))
    with DriverProcess(lab.folder / "latency-driver.log") as driver:
        for number, (rate, settings) in enumerate([(_WARM_UP, modes[0]), *product(RATES, modes)]):
            run = f"latency-{number}"
            create_topic(lab.source, TOPIC, rate.partitions)
            driver.start(write_pipeline(lab, run, TOPIC, settings), continuous=True)
            seconds = sizes.seconds if number else _BROKERS_WARM_UP_SECONDS
            seen = latencies(lab, f"{run}.{TOPIC}", rate, seconds, driver.ensure_running)
            driver.stop()
            driver.result(_ARRIVAL_SECONDS)
            mapping = _mapping(lab, f"{run}.mappings", sizes.seconds)
            shown = [*row(f"k2k by {settings.form}", settings.mode, rate, seen)[:-2], *mapping]
            delete_run(lab, run)
            delete_topics(lab.source, [TOPIC])
            if number:
                rows.append(shown)
                say(table(HEADERS, rows[-1:]))
    return rows


def row(what: str, mode: str, rate: Rate, seen: list[float]) -> list[str]:
    """A row of the table of latencies."""
    figures = [f"{np.percentile(seen, at):.1f}" for at in (50, 90, 99, 100)]
    return [what, mode, str(rate.per_second), str(len(seen)), *figures, "", ""]


def _mapping(lab: Lab, topic: str, seconds: int) -> list[str]:
    """Mapping records a second, and their bytes a day, in the last seconds of a run."""
    partitions = lab.target.partitions_of([topic])
    starts, ends = lab.target.offsets(partitions, "earliest"), lab.target.offsets(partitions, "latest")
    with LogReader({"bootstrap.servers": lab.sandbox.target_servers}, starts, committed_only=True) as reader:
        found = [message for batch in reader.read_until(ends, Deadline(_ARRIVAL_SECONDS)) for message in batch]
    last = max(message.timestamp()[1] for message in found)
    late = [message for message in found if message.timestamp()[1] > last - 1000 * seconds]
    size = sum(len(message.key() or b"") + len(message.value() or b"") for message in late)
    return [f"{len(late) / seconds:.0f}", f"{size / seconds * 86_400 / 1e6:.0f}"]


def latencies(lab: Lab, target_topic: str, rate: Rate, seconds: int, ensure_running: Callable[[], None]) -> list[float]:
    """Milliseconds of records of `TOPIC`, whose copy is running or starting.

    Args:
        lab: Where the clusters are.
        target_topic: Where records arrive; it is waited for.
        rate: How they are written.
        seconds: For how long it is measured, after some that are not counted.
        ensure_running: Raises if what copies has ended.

    Raises:
        TimeoutError: The topic is not there, or a record did not arrive.
    """

    def is_there() -> bool:
        ensure_running()
        return target_topic in lab.target.topics()

    wait_until(is_there, _START_SECONDS, f"{target_topic} on the target")
    reader = _Reader(lab.sandbox.target_servers, target_topic, rate.partitions)
    linger = _LINGER_MS if rate.per_second >= _MANY else 0
    producer = Producer({"bootstrap.servers": lab.sandbox.source_servers, "linger.ms": linger, "acks": "all"})
    producer.list_topics(timeout=_ARRIVAL_SECONDS)
    try:
        _write(producer, rate, rate.partitions)
        wait_until(lambda: len(reader.seen) >= rate.partitions, _START_SECONDS, "the first records to arrive")
        count = rate.per_second * (_WARM_UP_SECONDS + seconds)
        _write(producer, rate, count)
        wanted = rate.partitions + count
        wait_until(lambda: len(reader.seen) >= wanted, _ARRIVAL_SECONDS, "the last record to arrive")
    finally:
        producer.flush(5.0)
        reader.close()
    # MirrorMaker 2 may deliver twice when it starts; what counts is the end.
    return reader.seen[-rate.per_second * seconds :]


def _write(producer: Producer, rate: Rate, count: int) -> None:
    """Writes records on a fixed schedule, each to the next partition; more than a thousand a second each millisecond.

    A wait for each record would take much of a core from what is measured.
    """
    next_at = time.monotonic()
    idle = threading.Event()
    at_once = max(1, rate.per_second // _MANY)
    for number in range(count):
        if number % at_once == 0:
            idle.wait(max(0.0, next_at - time.monotonic()))
        value = f"{time.perf_counter_ns()} ".encode().ljust(_SIZE, b"x")
        producer.produce(TOPIC, value, None, number % rate.partitions)
        producer.poll(0)
        next_at += 1 / rate.per_second


class _Reader:
    """A thread that notes when each record is visible."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        self.seen: list[float] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "bench-latency",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 500,
            }
        )
        self._consumer.list_topics(timeout=_ARRIVAL_SECONDS)
        self._consumer.assign([KafkaTopicPartition(topic, partition, 0) for partition in range(partitions)])
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._read, name="reader", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread."""
        self._end.set()
        self._thread.join(10.0)
        self._consumer.close()

    def _read(self) -> None:
        while not self._end.is_set():
            first = self._consumer.poll(0.2)
            if first is None:
                continue
            messages = [first, *self._consumer.consume(_AT_ONCE, 0.0)]
            now = time.perf_counter_ns()
            values = [message.value() or b"" for message in messages if message.error() is None]
            self.seen += [(now - int(value.split(b" ", 1)[0])) / 1e6 for value in values]
