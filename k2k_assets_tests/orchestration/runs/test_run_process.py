"""A run's process is seen to be gone on its own machine only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.orchestration.runs.run_process import PROCESS_TAG, is_gone, is_there, process_tags

_TELL = """
import json
from k2k_assets.orchestration.runs.run_process import process_tags
print(json.dumps(process_tags()), flush=True)
input()
"""


@pytest.fixture
def other() -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """A living process and its tags."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", _TELL], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())
        process.kill()


def test_a_living_process_is_there(other: tuple[subprocess.Popen[str], dict[str, str]]) -> None:
    for tags in (process_tags(), other[1]):
        assert not is_gone(tags)
        assert is_there(tags)


def test_a_process_that_is_stopped_is_neither_gone_nor_certain_to_live(
    other: tuple[subprocess.Popen[str], dict[str, str]],
) -> None:
    process, tags = other
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: not is_there(tags), 10, "the process to stop")
    assert not is_gone(tags)


def test_a_killed_process_is_gone_though_nobody_has_waited_for_it(
    other: tuple[subprocess.Popen[str], dict[str, str]],
) -> None:
    process, tags = other
    process.kill()
    wait_until(lambda: is_gone(tags), 10, "the process to be a zombie")
    process.wait(10)
    assert is_gone(tags)


def test_another_process_with_the_same_number_is_another_process() -> None:
    pid, start, place = process_tags()[PROCESS_TAG].split()
    assert pid == str(os.getpid())
    assert is_gone({PROCESS_TAG: f"{pid} {int(start) - 1} {place}"})


@pytest.mark.parametrize("place", ["0123456789abcdef", ""])
def test_nothing_is_known_of_processes_of_other_machines_and_containers(place: str) -> None:
    for known in (is_gone, is_there):
        assert not known({PROCESS_TAG: f"999999999 1 {place}"})


@pytest.mark.parametrize("tags", [{}, {PROCESS_TAG: "what"}, {PROCESS_TAG: ""}])
def test_of_a_run_without_a_noted_process_nothing_is_known(tags: dict[str, str]) -> None:
    assert not is_gone(tags)
    assert not is_there(tags)
