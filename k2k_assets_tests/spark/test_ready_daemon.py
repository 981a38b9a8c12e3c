"""The process from which Python workers are forked: the prepared one, or the one that Spark starts."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.spark.ready_daemon import MODULE, VARIABLE, ReadyDaemon
from k2k_assets_tests.support.brokers.kafka import PATIENCE, SECONDS

pytestmark = pytest.mark.processes


@contextmanager
def asked(address: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """What Spark does: it starts a daemon, reads the port on which it listens, and ends it by closing its input."""
    environment = {**os.environ, VARIABLE: address, "PYTHON_WORKER_FACTORY_SECRET": "secret"}
    daemon = subprocess.Popen(
        [sys.executable, "-m", MODULE, "pyspark.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    try:
        assert daemon.stdout is not None
        (port,) = struct.unpack("!i", daemon.stdout.read(4))
        yield daemon, port
        assert daemon.stdin is not None
        daemon.stdin.close()
        daemon.wait(PATIENCE)
    finally:
        daemon.kill()
        daemon.wait(PATIENCE)


def listener(port: int, *processes: int) -> int | None:
    """Which of some processes listens on a port."""
    for pid in processes:
        if any(c.laddr.port == port for c in psutil.Process(pid).net_connections() if c.status == psutil.CONN_LISTEN):
            return pid
    return None


@pytest.mark.slow
def test_the_ready_one_takes_over_and_both_end_with_their_input() -> None:
    ready = ReadyDaemon()
    with asked(ready.address) as (daemon, port):
        assert listener(port, daemon.pid, ready.process.pid) == ready.process.pid
        assert not Path(ready.address).parent.exists()
        with asked(ready.address) as (second, its_port):
            assert listener(its_port, second.pid, ready.process.pid) == second.pid, "a daemon is used once"
    ready.process.wait(PATIENCE)


@pytest.mark.parametrize("killed", ["before it is asked", "never there"])
def test_where_none_is_ready_it_is_the_daemon_itself(killed: str, tmp_path: Path) -> None:
    address = str(tmp_path / "socket")
    if killed == "before it is asked":
        ready = ReadyDaemon()
        address = ready.address
        ready.process.kill()
        ready.process.wait(PATIENCE)
    with asked(address) as (daemon, port):
        assert listener(port, daemon.pid) == daemon.pid


def test_one_that_is_killed_takes_the_one_that_waits_for_it_along() -> None:
    ready = ReadyDaemon()
    with asked(ready.address) as (daemon, _):
        ready.process.kill()
        daemon.wait(PATIENCE)
    ready.process.wait(PATIENCE)


@pytest.mark.slow
def test_one_that_nobody_wants_any_more_ends_and_leaves_nothing() -> None:
    ready = ReadyDaemon()
    process, address = psutil.Process(ready.process.pid), Path(ready.address)
    assert address.exists()
    del ready
    process.wait(PATIENCE)
    assert not address.parent.exists()


def test_a_worker_that_loses_it_before_its_first_task_ends(tmp_path: Path) -> None:
    """Nobody could stop the slot that it would begin to copy."""
    with asked(str(tmp_path / "nobody")) as (daemon, port), socket.create_connection(("127.0.0.1", port)):
        (worker,) = wait_until(lambda: psutil.Process(daemon.pid).children(), SECONDS, "the worker")
        wait_until(lambda: worker.num_threads() > 1, SECONDS, "its watch")
        daemon.kill()
        worker.wait(SECONDS)
