"""SIGKILL at each step of a transaction, to each of the processes that a `k2k start` on Spark consists of.

A worker freezes at the step, so that the step is certain; then the process is killed, and the worker, if it lives,
continues without its parent.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, end_offsets, unique
from k2k_assets_tests.support.copies.numbered import NumberedWriter
from k2k_assets_tests.support.copies.pipelines import NEVER_TIMED_OUT, write_pipeline
from k2k_assets_tests.support.copies.processes import (
    copy_workers,
    ensure_running,
    executor_jvms,
    is_alive,
    jvms,
    started,
)
from k2k_assets_tests.support.copies.unlucky import Mishap
from k2k_assets_tests.support.proof.verifying import verify
from k2k_assets_tests.support.suite.storms import in_storms

pytestmark = [pytest.mark.integration, pytest.mark.spark]

PARTITIONS = 2
WORKER, JVM, EXECUTOR, DRIVER, EVERYTHING = "worker", "jvm", "executor", "driver", "everything"
# Of one partition in batches of 40: claim, start, then data.
STEPS = [
    ("open", 1),
    ("begin", 1),
    ("commit", 1),
    ("begin", 2),
    ("commit", 2),
    ("begin", 4),
    ("write", 2),
    ("settle", 2),
    ("write_control", 5),
    ("before_commit", 4),
    ("during_commit", 4),
    ("commit", 4),
]
VICTIMS = [WORKER, JVM, EXECUTOR, DRIVER, EVERYTHING]
AT_EACH_CHANGE = [(JVM, "enabled", "before_commit", 4)]
ALL = [
    (victim, mode, step, occurrence)
    for mode in ("enabled", "disabled")
    for step, occurrence in STEPS
    for victim in VICTIMS
]


@pytest.fixture(scope="module")
def topic(clusters: KafkaSandbox) -> str:
    """Written once for all, with committed, aborted and plain batches in each partition."""
    name = create_topic(clusters.source_servers, unique("struck"), PARTITIONS)
    writer = NumberedWriter(clusters.source_servers, [], 0)
    for partition in range(PARTITIONS):
        for kind in ("plain", "committed", "aborted", "plain"):
            writer.write(60, name, partition, kind)
    return name


def pipeline_file(directory: Path, clusters: KafkaSandbox, topic: str, mode: str, victim: str) -> Path:
    name = unique("struck")
    return write_pipeline(
        directory,
        clusters.source_servers,
        clusters.target_servers,
        [topic],
        sink={"prefix": f"{name}."},
        features={"exactlyOnce": mode, "offsetMapping": "enabled", "headerReplication": "enabled"},
        coordination={
            "commit": {"topic": f"{name}-commits", "batchSize": 40, "syncTimeout": "11 minutes"},
            "assignment": {"topic": f"{name}-claims"},
        },
        producer=NEVER_TIMED_OUT,
        spark={"master": "local-cluster[2,1,1024]" if victim == EXECUTOR else "local[2]"},
    )


def assert_all_is_there(clusters: KafkaSandbox, path: Path, topic: str) -> None:
    """Each record as the mode promises, all that was copied mapped, nothing left open."""
    pipeline = load_pipeline([path])
    target_topic = pipeline.routing.target_topic(topic)
    verdict = verify(pipeline, clusters.source_servers, clusters.target_servers, [topic])
    assert verdict.problems == []
    assert verdict.records == PARTITIONS * 180
    servers = clusters.target_servers
    assert end_offsets(servers, target_topic) == end_offsets(servers, target_topic, "read_committed")


def below(process: subprocess.Popen[str], victim: str, frozen: psutil.Process) -> list[psutil.Process]:
    """The processes that are to be killed."""
    if victim == WORKER:
        return [frozen]
    if victim == DRIVER:
        return [psutil.Process(process.pid)]
    if victim == EVERYTHING:
        driver = psutil.Process(process.pid)
        return [driver, *driver.children(recursive=True)]
    if victim == JVM:
        return [jvm for jvm in jvms(process) if jvm not in executor_jvms(process)]
    return [jvm for jvm in executor_jvms(process) if frozen in jvm.children(recursive=True)]


@contextmanager
def frozen_at(process: subprocess.Popen[str], file: Path) -> Iterator[psutil.Process]:
    """The worker that has come to the step; it goes on when the block ends, if it lives."""

    def found() -> psutil.Process | None:
        ensure_running(process)
        worker = psutil.Process(int(file.read_text())) if file.exists() and file.read_text() else None
        return worker if worker and worker.status() == psutil.STATUS_STOPPED else None

    worker = wait_until(found, 400, "a worker to come to the step", interval=0.05)
    assert worker is not None
    try:
        yield worker
    finally:
        with suppress(psutil.NoSuchProcess):
            worker.send_signal(signal.SIGCONT)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("victim", "mode", "step", "occurrence"),
    [*AT_EACH_CHANGE, *in_storms(*(case for case in ALL if case not in AT_EACH_CHANGE))],
)
def test_killed_at_a_step(
    clusters: KafkaSandbox, tmp_path: Path, topic: str, victim: str, mode: str, step: str, occurrence: int
) -> None:
    """Whichever process dies at whichever step, the next run completes the copy as its mode promises."""
    path = pipeline_file(tmp_path, clusters, topic, mode, victim)
    mishap = Mishap(step=step, occurrence=occurrence, frozen=str(tmp_path / "frozen"))
    with started("-f", path, "--once", k2k=mishap.k2k()) as process:
        with frozen_at(process, tmp_path / "frozen") as worker:
            assert worker in copy_workers(process)
            family = [worker, *copy_workers(process), *jvms(process)]
            victims = below(process, victim, worker)
            assert victims
            for each in victims:
                each.kill()
            wait_until(lambda: not any(map(is_alive, victims)), 120, "those that were killed to be gone")
        if victim in (DRIVER, EVERYTHING):
            wait_until(lambda: not any(map(is_alive, family)), 120, "all below the driver to end")
        else:
            _, err = process.communicate(timeout=500)
            assert process.returncode == 0, err
    if victim in (DRIVER, EVERYTHING):
        with started("-f", path, "--once") as again:
            _, err = again.communicate(timeout=500)
            assert again.returncode == 0, err
    assert_all_is_there(clusters, path, topic)
