"""Measures what a start costs, until its first committed record can be read on the target.

`k2k start` as a process of its own, from its birth; and a run that Dagster's webserver launches, from the GraphQL
mutation that a click on Materialize sends. Two sizes of the same run tell what a start burns beside copying: the line
through both, at no records.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaTopicPartition

from benchmarks.lab import Lab, delete_run
from benchmarks.pipelines import Settings, write_pipeline
from benchmarks.report import progress, say, table
from benchmarks.sizes import Load, Sizes
from benchmarks.webserver import Webserver
from k2k_assets.orchestration.names import AssetNames

HEADERS = ["what", "load", "to the first record s", "to the end s", "Python CPU s", "Java CPU s", "of runs"]

_LOOK_SECONDS = 0.03
# The webserver is asked less often: it works for the run, too.
_ASK_SECONDS = 0.25
_RUN_SECONDS = 300.0
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Started:
    """One start.

    Attributes:
        first: Seconds until a committed record could be read on the target; None if nobody looked.
        end: Until the process had ended.
        python: CPU seconds of the driver and the workers.
        java: Of Spark's Java processes.
    """

    first: float | None
    end: float
    python: float
    java: float


def measure(lab: Lab, sizes: Sizes) -> list[list[str]]:
    """Rows of the table of starts: a first copy, one that finds nothing new, and one by Dagster, for each load."""
    rows = []
    for load in sizes.starts:
        lab.ensure_loaded(load)
        pairs = [_pair(lab, load) for _ in range(sizes.repeat)]
        for what, runs in zip(("k2k start --once", "again, nothing new"), zip(*pairs, strict=True), strict=True):
            rows.append(_row(what, load, list(runs)))
        rows.append(_row("Materialize, nothing copied before", load, _clicks(lab, load, sizes.repeat)))
        progress(f"{load.title}: {rows[-3:]}")
    say(table(HEADERS, rows))
    return rows


def _pair(lab: Lab, load: Load) -> tuple[Started, Started]:
    """A run that copies all, and one after it."""
    run = f"start-{next(_numbers)}"
    path = write_pipeline(lab, run, load.topic, Settings(exactly_once=True))
    try:
        return start(lab, path, f"{run}.{load.topic}"), start(lab, path, None)
    finally:
        delete_run(lab, run)


def _clicks(lab: Lab, load: Load, times: int) -> list[Started]:
    """Runs of one asset each, in pipelines that have copied nothing, one after the other."""
    runs = [f"click-{next(_numbers)}" for _ in range(times)]
    folder = lab.folder / runs[0]
    folder.mkdir()
    for run in runs:
        path = write_pipeline(lab, run, load.topic, Settings(exactly_once=True))
        path.rename(folder / path.name)
    with Webserver(lab, folder) as webserver:
        return [click(lab, webserver, run, load.topic) for run in runs]


def click(lab: Lab, webserver: Webserver, run: str, topic: str) -> Started:
    """Lets Dagster materialize a topic, all that is there, and waits for the end of the run.

    Args:
        lab: Where the clusters are.
        webserver: Whose code location shows the pipeline.
        run: The pipeline.
        topic: Its source topic.
    """
    names = AssetNames(run)
    eye = _Eye(lab, f"{run}.{topic}")
    root = psutil.Process(webserver.process.pid)
    before = {member.pid for member in root.children(recursive=True)}
    config = {"ops": {names.op("topics"): {"config": {"extent": "caught_up"}}}}
    try:
        began = time.time()
        run_id = webserver.ui.materialize(names.topic_key(topic).path, config)
        answered = time.monotonic()

        def has_ended() -> bool:
            nonlocal answered
            if eye.is_looking() or time.monotonic() - answered < _ASK_SECONDS:
                return False
            answered = time.monotonic()
            return webserver.ui.has_ended(run_id)

        python, java = _cpu_until(has_ended, root, {root.pid, *before})
        ended = time.time()
        return Started(eye.seen() - began, ended - began, python, java)
    finally:
        delete_run(lab, run)


def start(lab: Lab, pipeline: Path, target_topic: str | None) -> Started:
    """Runs `k2k start --once`.

    Args:
        lab: Where the clusters are.
        pipeline: The pipeline file.
        target_topic: Where its first record is waited for; None: nowhere.

    Raises:
        RuntimeError: It ended with another exit code than 0.
    """
    eye = _Eye(lab, target_topic) if target_topic else None
    command = [str(Path(sys.executable).with_name("k2k")), "start", "-f", str(pipeline), "--once"]
    with (lab.folder / "starts.log").open("ab") as log:
        began = time.time()
        environment = {**os.environ, "K2K_HOME": str(lab.folder / "home")}
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        python, java = _cpu_until(lambda: process.poll() is not None, psutil.Process(process.pid))
        ended = time.time()
    if process.returncode:
        raise RuntimeError(f"k2k start ended with {process.returncode}; what it said is in starts.log")
    seen = eye.seen() if eye else None
    return Started(None if seen is None else seen - began, ended - began, python, java)


def _cpu_until(
    has_ended: Callable[[], bool], root: psutil.Process, without: Collection[int] = ()
) -> tuple[float, float]:
    """CPU seconds of Python and of Java in a process and all below it.

    Args:
        has_ended: Whether to look no more.
        root: The process.
        without: Those that do not count.
    """
    seconds: dict[int, float] = {}
    is_java: dict[int, bool] = {}
    deadline = time.monotonic() + _RUN_SECONDS
    while not has_ended() and time.monotonic() < deadline:
        try:
            family = [member for member in (root, *root.children(recursive=True)) if member.pid not in without]
        except psutil.Error:
            family = []
        for member in family:
            try:
                times = member.cpu_times()
                seconds[member.pid] = times.user + times.system
                is_java[member.pid] = member.name() == "java"  # before its program is loaded it is its parent's copy
            except psutil.Error:
                continue
        time.sleep(_LOOK_SECONDS)
    totals: dict[bool, float] = defaultdict(float)
    for pid, used in seconds.items():
        totals[is_java.get(pid, False)] += used
    return totals[False], totals[True]


class _Eye:
    """A thread that waits for a record in a topic that is not there yet."""

    def __init__(self, lab: Lab, topic: str) -> None:
        self._seen: float | None = None
        self._lab, self._topic = lab, topic
        self._thread = threading.Thread(target=self._look, name="eye", daemon=True)
        self._thread.start()

    def is_looking(self) -> bool:
        """Whether it was not there yet."""
        return self._thread.is_alive()

    def seen(self) -> float:
        """When it was there.

        Raises:
            TimeoutError: It is not.
        """
        self._thread.join(_RUN_SECONDS)
        if self._seen is None:
            raise TimeoutError(f"no record came to {self._topic}")
        return self._seen

    def _look(self) -> None:
        while self._topic not in (topics := self._lab.target.topics()):
            time.sleep(_LOOK_SECONDS)
        settings = {"bootstrap.servers": self._lab.sandbox.target_servers, "group.id": "bench-start"}
        consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.auto.commit": False})
        try:
            consumer.assign([KafkaTopicPartition(self._topic, p, 0) for p in range(topics[self._topic])])
            deadline = time.monotonic() + _RUN_SECONDS
            while time.monotonic() < deadline:
                message = consumer.poll(0.2)
                if message is not None and message.error() is None:
                    self._seen = time.time()
                    return
        finally:
            consumer.close()


def _row(what: str, load: Load, runs: list[Started]) -> list[str]:
    firsts = [run.first for run in runs if run.first is not None]

    def shown(values: list[float]) -> str:
        return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})" if values else ""

    return [
        what, load.title, shown(firsts), shown([run.end for run in runs]), shown([run.python for run in runs]),
        shown([run.java for run in runs]), str(len(runs)),
    ]  # fmt: skip
