"""Measures how long a group's commit on the source takes to be its translated commit on the target.

    python -m benchmarks.group_latency             # with poll intervals of 1 and 5 seconds
    python -m benchmarks.group_latency --quick     # few samples, to try the benchmark itself
    python -m benchmarks.group_latency --append    # the same, appended to RESULTS.md

`k2k-offset-mapping` runs in a process of its own; commits come at any moment between two of its polls.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as KafkaTopicPartition

from benchmarks import machine, report
from benchmarks.lab import Lab
from benchmarks.pipelines import Settings, write_pipeline
from benchmarks.sizes import Load
from k2k_assets.core.deadline import wait_until
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import load_pipeline
from k2k_assets.replication.driver.replicate import replicate_with
from k2k_assets.replication.extent import UntilCaughtUp
from k2k_assets.replication.slot.task import copy_slot

HEADERS = ["poll interval", "samples", "median s", "p90 s", "max s", "goal: median under"]
GROUP = "bench-latency-group"
INTERVALS = (1, 5)

_LOAD = Load("group-latency", 100, 100_000, 10)
_SECONDS = 30.0
_LOOK_SECONDS = 0.01
# Beyond half of the interval, which the commit waits for the poll on average.
_GOAL_SECONDS = 0.5


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.group_latency", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few samples, to try the benchmark itself")
    parser.add_argument("--append", action="store_true", help="append to RESULTS.md")
    options = parser.parse_args()
    with Lab() as lab:
        report.progress("copying a topic")
        path = _copied(lab)
        rows = [_measured(lab, path, interval, 4 if options.quick else 40) for interval in INTERVALS]
    words = machine.listed()
    sections = [f"### From a commit on the source to its commit on the target\n\n{words}", report.table(HEADERS, rows)]
    report.publish(sections, options.append)


def _copied(lab: Lab) -> Path:
    """The file of a pipeline whose topic has been copied; without Spark, which has no part in what is measured."""
    lab.ensure_loaded(_LOAD)
    path = write_pipeline(lab, "group-latency", _LOAD.topic, Settings(exactly_once=True))

    def run_slots(plans: Any) -> list[Any]:
        with ThreadPoolExecutor(len(plans)) as pool:
            return list(pool.map(copy_slot, plans))

    replicate_with(run_slots, 2, load_pipeline([path]), UntilCaughtUp())
    return path


def _measured(lab: Lab, path: Path, interval: int, samples: int) -> list[str]:
    rng = random.Random(interval)
    positions = rng.sample(range(_LOAD.records // _LOAD.partitions), 1 + samples)
    with _mapper(lab, path, interval) as process:
        seen = [_sample(lab, process, position, rng.random() * interval) for position in positions][1:]
    goal = interval / 2 + _GOAL_SECONDS
    median, p90, most = (float(np.percentile(seen, at)) for at in (50, 90, 100))
    met = "yes" if median < goal else "NO"
    return [f"{interval} s", str(samples), f"{median:.2f}", f"{p90:.2f}", f"{most:.2f}", f"{goal:g}: {met}"]


@contextmanager
def _mapper(lab: Lab, path: Path, interval: int) -> Iterator[subprocess.Popen[bytes]]:
    overlay = lab.folder / f"interval-{interval}.json"
    overlay.write_text(json.dumps({"groups": {"pollInterval": f"{interval} seconds", "consumerGroups": [GROUP]}}))
    command = [sys.executable, "-m", "k2k_assets.cli.offset_mapping", "start", "-f", str(path), "-f", str(overlay)]
    with (lab.folder / f"mapper-{interval}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(_SECONDS)


def _sample(lab: Lab, process: subprocess.Popen[bytes], position: int, pause: float) -> float:
    """Seconds from a commit, made after a pause, until the target's group holds something else."""
    time.sleep(pause)
    before = _held(lab.target)
    _answer(lab.source.admin.alter_consumer_group_offsets([_question(position)]))
    committed = time.monotonic()

    def moved() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"the mapper ended with {process.returncode}")
        return _held(lab.target) != before

    wait_until(moved, _SECONDS, f"position {position} on the target", interval=_LOOK_SECONDS)
    return time.monotonic() - committed


def _question(position: int | None) -> ConsumerGroupTopicPartitions:
    wanted = [] if position is None else [KafkaTopicPartition(_LOAD.topic, 0, position)]
    return ConsumerGroupTopicPartitions(GROUP, wanted or None)


def _held(target: Cluster) -> int | None:
    found = _answer(target.admin.list_consumer_group_offsets([_question(None)], require_stable=True))
    return next((item.offset for item in found.topic_partitions), None)


def _answer(asked: dict[str, Any]) -> Any:
    return asked[GROUP].result(_SECONDS)


if __name__ == "__main__":
    main()
