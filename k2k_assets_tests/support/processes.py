"""`k2k start` in a process of its own, and what to do to it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import psutil

from k2k_assets.deadline import wait_until
from k2k_assets_tests.support import kafka


class HasPid(Protocol):
    """A process that was started."""

    @property
    def pid(self) -> int: ...


@contextmanager
def started(*arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A `k2k start` in a process of its own, which never outlives the test."""
    command = [sys.executable, "-m", "k2k_assets.cli.main", "start", *map(str, arguments)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=True, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def await_copied(process: subprocess.Popen[str], target: str, topic: str, count: int) -> None:
    """Waits until so many records of a topic are on the target; fails at once if the process ends before."""

    def copied() -> bool:
        if process.poll() is not None:
            raise AssertionError(f"ended with {process.returncode}: {process.communicate()[1]}")
        return topic in kafka.topics(target) and len(kafka.read_all(target, topic)) == count

    wait_until(copied, 150, f"{count} records in {topic}", interval=0.3)


def copy_workers(process: HasPid) -> list[psutil.Process]:
    """The Python workers in which the slots run: children of pyspark's daemons."""
    workers = []
    for child in psutil.Process(process.pid).children(recursive=True):
        parent = child.parent()
        if parent and _is_daemon(child) and _is_daemon(parent):
            workers.append(child)
    return workers


def jvms(process: HasPid) -> list[psutil.Process]:
    """The Java processes below it."""
    return [child for child in psutil.Process(process.pid).children(recursive=True) if child.name() == "java"]


def _is_daemon(process: psutil.Process) -> bool:
    try:
        return "pyspark.daemon" in process.cmdline()
    except psutil.NoSuchProcess:
        return False
