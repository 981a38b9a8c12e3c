"""`k2k start` in its own process, with helpers to control it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import psutil

from k2k_assets.core.deadline import wait_until
from k2k_assets_tests.support.brokers import kafka

K2K = (sys.executable, "-m", "k2k_assets.cli.main")


class HasPid(Protocol):
    """A process that was started."""

    @property
    def pid(self) -> int: ...


@contextmanager
def started(
    *arguments: str | Path, k2k: Sequence[str] = K2K, log: Path | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A `k2k start` in a process of its own, which never outlives the test.

    Args:
        arguments: Of `start`.
        k2k: How `k2k` is run.
        log: File for its standard error, which can be read meanwhile; a pipe if None.
    """
    with ExitStack() as stack:
        errors = subprocess.PIPE if log is None else stack.enter_context(log.open("w"))
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": errors, "text": True}
        command = [*k2k, "start", *map(str, arguments)]
        process = stack.enter_context(subprocess.Popen(command, start_new_session=True, **pipes))
        try:
            yield process
        finally:
            process.kill()


def ensure_running(process: subprocess.Popen[Any]) -> None:
    """Fails with what it said if a process has ended."""
    if process.poll() is not None:
        raise AssertionError(f"ended with {process.returncode}: {process.communicate()[1]}")


def await_copied(process: subprocess.Popen[Any], target: str, topic: str, count: int) -> None:
    """Waits until so many records of a topic are on the target; fails at once if the process ends before."""

    def copied() -> bool:
        ensure_running(process)
        return topic in kafka.topics(target) and len(kafka.read_all(target, topic)) == count

    wait_until(copied, 150, f"{count} records in {topic}", interval=0.3)


def await_words(process: subprocess.Popen[Any], log: Path, words: str) -> None:
    """Waits until it has said something on standard error; fails at once if the process ends before."""

    def said() -> bool:
        ended, text = process.poll(), log.read_text()
        if words not in text and ended is not None:
            raise AssertionError(f"ended with {ended}: {text}")
        return words in text

    wait_until(said, 150, f"{words!r} in {log.name}", interval=0.1)


def is_alive(process: psutil.Process) -> bool:
    """Whether it still runs: not dead, and not waited for by its parent only."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def copy_workers(process: HasPid) -> list[psutil.Process]:
    """The Python workers in which the slots run: children of pyspark's daemons."""
    workers = []
    for child in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            parent = child.parent()
            if parent and _is_daemon(child) and _is_daemon(parent):
                workers.append(child)
    return workers


def jvms(process: HasPid) -> list[psutil.Process]:
    """The Java processes below it."""
    return [child for child in psutil.Process(process.pid).children(recursive=True) if _name(child) == "java"]


def executor_jvms(process: HasPid) -> list[psutil.Process]:
    """Those of them that are executors, which are processes of their own in a `local-cluster`."""
    return [jvm for jvm in jvms(process) if "CoarseGrainedExecutorBackend" in " ".join(jvm.cmdline())]


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


def _is_daemon(process: psutil.Process) -> bool:
    try:
        return not {"pyspark.daemon", "k2k_assets.spark.worker_daemon"}.isdisjoint(process.cmdline())
    except psutil.NoSuchProcess:
        return False
