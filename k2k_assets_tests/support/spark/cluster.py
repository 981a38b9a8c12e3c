"""A Spark standalone cluster of real processes: a master, and workers that come and go."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from k2k_assets.core.deadline import wait_until
from k2k_assets.spark.spark_command import spark_home
from k2k_assets_tests.support.copies.processes import copy_workers, is_alive

_SECONDS = 90.0
_HOST = "127.0.0.1"


class StandaloneCluster:
    """Starts the master at once; `add_worker` starts workers. Everything is in one folder.

    Args:
        folder: An empty folder, for logs and what executors write.

    Attributes:
        address: `spark.master`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[psutil.Process] = []
        log = self._start("master.Master", "master", "--host", _HOST, "--port", "0", "--webui-port", "0")
        found = wait_until(
            lambda: re.search(rf"spark://{_HOST}:\d+", log.read_text()), _SECONDS, "the Spark master to listen"
        )
        assert found
        self.address = found[0]

    def add_worker(self, cores: int = 1) -> psutil.Process:
        """Starts a worker, and waits until the master knows it; its executors are processes below it."""
        name = f"worker-{len(self._processes)}"
        arguments = ["--host", _HOST, "--port", "0", "--webui-port", "0", "--cores", str(cores), "--memory", "1g"]
        log = self._start("worker.Worker", name, *arguments, "--work-dir", str(self._folder / name), self.address)
        worker = self._processes[-1]
        wait_until(lambda: "Successfully registered with master" in log.read_text(), _SECONDS, f"{name} to register")
        return worker

    def settings(self) -> dict[str, object]:
        """The `spark` section of a pipeline file."""
        config = {
            "spark.driver.host": _HOST,
            "spark.driver.bindAddress": _HOST,
            "spark.executor.memory": "512m",
            "spark.local.dir": str(self._folder / "driver"),
        }
        return {"master": self.address, "config": config}

    def stop(self) -> None:
        """Ends all of it."""
        for process in self._processes:
            kill_with_children(process)

    def _start(self, kind: str, name: str, *arguments: str) -> Path:
        log = self._folder / f"{name}.log"
        environment = {
            **os.environ,
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": _HOST,
            "SPARK_DAEMON_MEMORY": "128m",
            "SPARK_LOCAL_DIRS": str(self._folder / "local"),
            "PYSPARK_PYTHON": sys.executable,
        }
        command = [str(spark_home() / "bin/spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
        with log.open("w") as said:
            process = subprocess.Popen(command, stdout=said, stderr=said, env=environment, start_new_session=True)
        self._processes.append(psutil.Process(process.pid))
        return log


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[StandaloneCluster]:
    """A cluster that never outlives the test."""
    cluster = StandaloneCluster(folder)
    try:
        yield cluster
    finally:
        cluster.stop()


def kill_with_children(process: psutil.Process) -> None:
    """Kills a process and all below it by SIGKILL, as when their machine loses its power."""
    with suppress(psutil.NoSuchProcess):
        family = [process, *process.children(recursive=True)]
        for each in family:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        wait_until(lambda: not any(map(is_alive, family)), 120, "those that were killed to be gone")


def slots_on(worker: psutil.Process) -> int:
    """Number of slots that run in Python workers below a worker of the cluster."""
    try:
        return len(copy_workers(worker))
    except psutil.NoSuchProcess:
        return 0
