"""No broker outlives the process that started it, in whatever way that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.sandbox import supervisor

_PARENT = """
import time
from k2k_assets.sandbox import KafkaSandbox
sandbox = KafkaSandbox().start()
print(sandbox.source.pid, sandbox.target.pid, sandbox.source.directory, flush=True)
time.sleep(600)
"""


def _start(tmp_path: Path, grace: float, directory: str, script: str) -> tuple[subprocess.Popen[bytes], int]:
    """The supervisor over a shell script instead of a broker; also the process id of the script."""
    command = [sys.executable, "-I", "-S", supervisor.__file__, str(tmp_path / "log"), str(grace), directory]
    process = subprocess.Popen(
        [*command, "/bin/sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def test_it_ends_with_the_brokers_exit_code(tmp_path: Path) -> None:
    process, _ = _start(tmp_path, 0, "", "echo its words; exit 7")
    assert process.wait(60) == 7
    assert (tmp_path / "log").read_text() == "its words\n"


def test_a_closed_pipe_ends_the_broker_in_an_orderly_way(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    script = f"trap 'echo stopped; exit 0' TERM; touch {tmp_path}/ready; while :; do sleep 0.05; done"
    process, pid = _start(tmp_path, 10, str(directory), script)
    wait_until((tmp_path / "ready").exists, 120, "the script to be ready")
    assert process.stdin is not None
    process.stdin.close()
    process.wait(60)
    assert not psutil.pid_exists(pid)
    assert not directory.exists()
    assert (tmp_path / "log").read_text() == "stopped\n"


def test_a_broker_that_does_not_heed_is_killed(tmp_path: Path) -> None:
    script = f"trap '' TERM; touch {tmp_path}/ready; while :; do sleep 0.05; done"
    process, pid = _start(tmp_path, 0.2, "", script)
    wait_until((tmp_path / "ready").exists, 120, "the script to be ready")
    assert process.stdin is not None
    process.stdin.close()
    process.wait(60)
    assert not psutil.pid_exists(pid)


def test_ending_the_supervisor_ends_the_broker(tmp_path: Path) -> None:
    process, pid = _start(tmp_path, 10, "", "exec sleep 600")
    process.terminate()
    process.wait(60)
    assert not psutil.pid_exists(pid)


@pytest.mark.integration
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
def test_brokers_and_data_go_with_a_killed_parent(number: signal.Signals) -> None:
    parent = subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        source, target, directory = parent.stdout.readline().split()
        assert all(psutil.pid_exists(int(pid)) for pid in (source, target))
        os.kill(parent.pid, number)
        parent.wait(60)
        wait_until(lambda: not psutil.pid_exists(int(source)), 120, "the source broker to end")
        wait_until(lambda: not psutil.pid_exists(int(target)), 120, "the target broker to end")
        wait_until(lambda: not Path(directory).parent.exists(), 120, "temporary data to go")
    finally:
        parent.kill()
