"""Measures how long a record takes from `produce()` on the source until a `read_committed` reader on the target has it.

One record every 100 ms; writer and reader are one process, so both read the same clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaTopicPartition

from benchmarks.driver_process import DriverProcess
from benchmarks.lab import Lab, create_topic, delete_topics
from benchmarks.pipelines import Settings, write_pipeline
from benchmarks.report import say, table
from benchmarks.sizes import Sizes
from k2k_assets.deadline import wait_until

HEADERS = ["what", "mode", "samples", "median ms", "p90 ms", "p99 ms", "max ms"]
TOPIC = "bench-latency"

_INTERVAL = 0.1
# Those that fall into the start are not counted.
_WARM_UP = 50
_ARRIVAL_SECONDS = 30.0
_START_SECONDS = 90.0
_SIZE = 100


def measure(lab: Lab, sizes: Sizes) -> list[list[str]]:
    """Rows of the table of latencies: both modes of this project, running continuously."""
    rows = []
    with DriverProcess(lab.folder / "latency-driver.log") as driver:
        for settings in (Settings(exactly_once=True), Settings(exactly_once=False)):
            run = f"latency-{settings.mode.replace(' ', '-')}"
            create_topic(lab.source, TOPIC, 1)
            driver.start(write_pipeline(lab, run, TOPIC, settings), continuous=True)
            seen = latencies(lab, f"{run}.{TOPIC}", sizes.samples, driver.ensure_running)
            driver.stop()
            driver.result(_ARRIVAL_SECONDS)
            delete_topics(lab.target, [topic for topic in lab.target.topics() if topic.startswith(f"{run}.")])
            delete_topics(lab.source, [TOPIC])
            rows.append(row("k2k", settings.mode, seen))
            say(table(HEADERS, rows[-1:]))
    return rows


def row(what: str, mode: str, seen: list[float]) -> list[str]:
    """A row of the table of latencies."""
    figures = [f"{np.percentile(seen, at):.1f}" for at in (50, 90, 99, 100)]
    return [what, mode, str(len(seen)), *figures]


def latencies(lab: Lab, target_topic: str, samples: int, ensure_running: Callable[[], None]) -> list[float]:
    """Milliseconds of `samples` records of `TOPIC`, whose copy is running or starting.

    Args:
        lab: Where the clusters are.
        target_topic: Where records arrive; it is waited for.
        samples: How many to measure, after some that are not counted.
        ensure_running: Raises if what copies has ended.

    Raises:
        TimeoutError: The topic is not there, or a record did not arrive.
    """

    def is_there() -> bool:
        ensure_running()
        return target_topic in lab.target.topics()

    wait_until(is_there, _START_SECONDS, f"{target_topic} on the target")
    reader = _Reader(lab.sandbox.target_servers, target_topic)
    producer = Producer({"bootstrap.servers": lab.sandbox.source_servers, "linger.ms": 0, "acks": "all"})
    producer.list_topics(timeout=_ARRIVAL_SECONDS)
    try:
        _write(producer, 1)
        wait_until(lambda: reader.seen, _START_SECONDS, "the first record to arrive")
        _write(producer, _WARM_UP + samples)
        wanted = 1 + _WARM_UP + samples
        wait_until(lambda: len(reader.seen) >= wanted, _ARRIVAL_SECONDS, "the last record to arrive")
    finally:
        producer.flush(5.0)
        reader.close()
    # MirrorMaker 2 may deliver twice when it starts; what counts is the end.
    return reader.seen[-samples:]


def _write(producer: Producer, count: int) -> None:
    """Writes a record every 100 ms, on a fixed schedule."""
    next_at = time.monotonic()
    idle = threading.Event()
    for _ in range(count):
        idle.wait(max(0.0, next_at - time.monotonic()))
        value = f"{time.perf_counter_ns()} ".encode().ljust(_SIZE, b"x")
        producer.produce(TOPIC, value, None, 0)
        producer.poll(0)
        next_at += _INTERVAL


class _Reader:
    """A thread that notes when each record is visible."""

    def __init__(self, servers: str, topic: str) -> None:
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
        self._consumer.assign([KafkaTopicPartition(topic, 0, 0)])
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
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                sent = int(message.value().split(b" ", 1)[0])
                self.seen.append((time.perf_counter_ns() - sent) / 1e6)
