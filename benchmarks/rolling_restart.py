"""Measures for how long nothing is copied when one of two instances hands over to the other one.

    python -m benchmarks.rolling_restart            # both modes, three hand-overs of each kind
    python -m benchmarks.rolling_restart --quick    # one of each kind, to try the benchmark itself
    python -m benchmarks.rolling_restart --append   # the same, appended to RESULTS.md

Two `k2k start` of one file are processes of their own. Records come at a steady rate; the longest time in which no
record of a partition became visible on the target is what the hand-over costs.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, pairwise

import numpy as np
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaTopicPartition

from benchmarks import machine, report
from benchmarks.lab import Lab, create_topic
from benchmarks.pipelines import Settings, write_pipeline
from k2k_assets.core.deadline import wait_until

HEADERS = ["hand-over", "mode", "times", "median s", "max s", "goal: under"]
TOPIC = "bench-rolling"
TAKEN_OVER, STOPPED = "a second instance starts and takes over", "SIGTERM to the one that copies, the other stands by"

_PARTITIONS = 4
_PAUSE_SECONDS = 0.005
_SECONDS = 120.0
_AFTERWARDS_SECONDS = 3.0
_GOAL_SECONDS = 2.0


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rolling_restart", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one hand-over of each kind, to try the benchmark itself")
    parser.add_argument("--append", action="store_true", help="append to RESULTS.md")
    options = parser.parse_args()
    words = machine.listed()
    rows: list[list[str]] = []
    with Lab() as lab:
        create_topic(lab.source, TOPIC, _PARTITIONS)
        for exactly_once in (True, False):
            rows += _measured(lab, Settings(exactly_once=exactly_once), 1 if options.quick else 3)
            report.say(report.table(HEADERS, rows[-2:]))
    sections = [f"### Without copying while an instance is replaced\n\n{words}", report.table(HEADERS, rows)]
    report.publish(sections, options.append)


def _measured(lab: Lab, settings: Settings, times: int) -> Iterator[list[str]]:
    run = f"rolling-{'eos' if settings.exactly_once else 'alo'}"
    path = str(write_pipeline(lab, run, TOPIC, settings))
    gaps: dict[str, list[float]] = {TAKEN_OVER: [], STOPPED: []}
    with _instance(lab, path, run) as first, _flow(lab, f"{run}.{TOPIC}") as arrivals:
        wait_until(lambda: len(arrivals.partitions()) == _PARTITIONS, _SECONDS, "the first records")
        for number in range(times):
            report.progress(f"{run}: hand-over {number + 1} of {times}")
            since = time.monotonic()
            with _instance(lab, path, f"{run}-{number}") as second:
                wait_until(lambda: first.said("standing by for") > number, _SECONDS, "the first one to stand by")  # noqa: B023
                gaps[TAKEN_OVER].append(arrivals.longest_gap(since))
                since = time.monotonic()
                second.process.send_signal(signal.SIGTERM)
                gaps[STOPPED].append(arrivals.longest_gap(since))
                second.process.wait(_SECONDS)
    for kind, seen in gaps.items():
        median, most = float(np.median(seen)), max(seen)
        met = "yes" if most < _GOAL_SECONDS else "NO"
        yield [kind, settings.mode, str(times), f"{median:.2f}", f"{most:.2f}", f"{_GOAL_SECONDS:g}: {met}"]


class _Running:
    """A `k2k start`, and what it has said."""

    def __init__(self, lab: Lab, path: str, name: str) -> None:
        self._log = lab.folder / f"{name}.log"
        with self._log.open("wb") as log:
            command = [sys.executable, "-m", "k2k_assets.cli.main", "start", "-f", path]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def said(self, words: str) -> int:
        """How often."""
        text = self._log.read_text()
        if self.process.poll() is not None:
            raise RuntimeError(f"it ended with {self.process.returncode}: {text}")
        return text.count(words)


@contextmanager
def _instance(lab: Lab, path: str, name: str) -> Iterator[_Running]:
    running = _Running(lab, path, name)
    try:
        yield running
    finally:
        running.process.terminate()
        try:
            running.process.wait(_SECONDS)
        finally:
            running.process.kill()


class _Arrivals:
    """When records of each partition became visible on the target."""

    def __init__(self) -> None:
        self._seen: list[tuple[int, float]] = []

    def add(self, partition: int) -> None:
        self._seen.append((partition, time.monotonic()))

    def partitions(self) -> set[int]:
        return {partition for partition, _ in self._seen}

    def longest_gap(self, since: float) -> float:
        """The longest pause of any partition that ended since then, once all have arrived for some seconds on."""
        until = time.monotonic() + _AFTERWARDS_SECONDS
        seen = self._seen
        wait_until(lambda: {p for p, at in seen[-1000:] if at > until} == set(range(_PARTITIONS)), _SECONDS, "records")
        times = [[at for p, at in list(seen) if p == partition and at > since - 1] for partition in range(_PARTITIONS)]
        return max(after - before for each in times for before, after in pairwise(each))


@contextmanager
def _flow(lab: Lab, target_topic: str) -> Iterator[_Arrivals]:
    """Writes to the source and reads from the target, until the block ends."""
    ended, arrivals = threading.Event(), _Arrivals()

    def write() -> None:
        producer = Producer({"bootstrap.servers": lab.sandbox.source_servers, "linger.ms": 0})
        for number in count():
            if ended.wait(_PAUSE_SECONDS):
                break
            producer.produce(TOPIC, b"x" * 100, partition=number % _PARTITIONS)
            producer.poll(0)
        producer.flush(_SECONDS)

    def read() -> None:
        settings = {"bootstrap.servers": lab.sandbox.target_servers, "group.id": "none", "enable.auto.commit": False}
        consumer = Consumer({**settings, "isolation.level": "read_committed"})
        wait_until(lambda: target_topic in lab.target.topics() or ended.is_set(), _SECONDS, target_topic)
        consumer.assign([KafkaTopicPartition(target_topic, partition, 0) for partition in range(_PARTITIONS)])
        while not ended.is_set():
            message = consumer.poll(0.1)
            if message is not None and not message.error():
                arrivals.add(message.partition() or 0)
        consumer.close()

    threads = [threading.Thread(target=work, daemon=True) for work in (write, read)]
    for thread in threads:
        thread.start()
    try:
        yield arrivals
    finally:
        ended.set()
        for thread in threads:
            thread.join(_SECONDS)


if __name__ == "__main__":
    main()
