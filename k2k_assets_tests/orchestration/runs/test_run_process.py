"""A run's process is seen to be gone on its own machine only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import dagster as dg
import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.orchestration.runs.run_process import PROCESS_TAG, is_gone, is_there, process_tags

pytestmark = pytest.mark.processes

_RUN, _OTHER = "a-run", "another-run"
_TELL = f"""
import json
from k2k_assets.orchestration.runs.run_process import process_tags
print(json.dumps(process_tags("{_RUN}")), flush=True)
input()
"""

Process = tuple[subprocess.Popen[str], dg.DagsterRun]


def _run(tags: dict[str, str], run_id: str = _RUN) -> dg.DagsterRun:
    return dg.DagsterRun(job_name="job", run_id=run_id, tags=tags)


@pytest.fixture
def other() -> Iterator[Process]:
    """A living process, and the run that it executes."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", _TELL], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        yield process, _run(json.loads(process.stdout.readline()))
        process.kill()


def test_a_living_process_is_there(other: Process) -> None:
    for run in (_run(process_tags(_RUN)), other[1]):
        assert not is_gone(run)
        assert is_there(run)


def test_a_process_that_is_stopped_is_neither_gone_nor_certain_to_live(other: Process) -> None:
    process, run = other
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: not is_there(run), 120, "the process to stop")
    assert not is_gone(run)


def test_a_killed_process_is_gone_though_nobody_has_waited_for_it(other: Process) -> None:
    process, run = other
    process.kill()
    wait_until(lambda: is_gone(run), 120, "the process to be a zombie")
    process.wait(10)
    assert is_gone(run)


def test_a_run_that_is_executed_again_has_the_tags_of_the_former_one(other: Process) -> None:
    """Nothing is known of its process until it notes it."""
    process, run = other
    again = _run(dict(run.tags), _OTHER)
    assert not is_there(again)
    process.kill()
    process.wait(10)
    assert is_gone(run)
    assert not is_gone(again)


def test_another_process_with_the_same_number_is_another_process() -> None:
    pid, start, place, _ = process_tags(_RUN)[PROCESS_TAG].split()
    assert pid == str(os.getpid())
    assert is_gone(_run({PROCESS_TAG: f"{pid} {int(start) - 1} {place} {_RUN}"}))


@pytest.mark.parametrize("place", ["0123456789abcdef", ""])
def test_nothing_is_known_of_processes_of_other_machines_and_containers(place: str) -> None:
    for known in (is_gone, is_there):
        assert not known(_run({PROCESS_TAG: f"999999999 1 {place} {_RUN}"}))


@pytest.mark.parametrize("tags", [{}, {PROCESS_TAG: "what"}, {PROCESS_TAG: ""}])
def test_of_a_run_without_a_noted_process_nothing_is_known(tags: dict[str, str]) -> None:
    assert not is_gone(_run(tags))
    assert not is_there(_run(tags))
