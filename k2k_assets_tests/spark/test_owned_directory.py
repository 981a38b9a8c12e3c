"""Temporary directories are removed with their process, or when the next one is created."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from k2k_assets.spark import owned_directory
from k2k_assets.spark.owned_directory import OwnedDirectory

_IN_ANOTHER_PROCESS = """
from k2k_assets.spark.owned_directory import OwnedDirectory
directory = OwnedDirectory("k2k-test-")
print(directory.path, flush=True)
input()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_that_of_a_killed_process_is_removed_and_that_of_a_live_one_is_not(folder: Path) -> None:
    command = [sys.executable, "-c", _IN_ANOTHER_PROCESS]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    theirs = Path(process.stdout.readline().strip())
    other = folder / "k2k-other"
    other.mkdir()

    first = OwnedDirectory("k2k-test-")
    assert set(folder.iterdir()) == {theirs, other, first.path}
    process.kill()
    process.communicate()
    second = OwnedDirectory("k2k-test-")
    assert set(folder.iterdir()) == {other, first.path, second.path}
    for directory in (first, first, second):
        directory.remove()
    assert list(folder.iterdir()) == [other]


def test_one_that_is_taken_for_left_over_before_it_is_locked_is_made_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    make = tempfile.mkdtemp

    def overtaken(prefix: str) -> str:
        made.append(make(prefix=prefix))
        if len(made) == 1:
            owned_directory._remove_left_over(prefix)
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", overtaken)
    directory = OwnedDirectory("k2k-test-")
    assert [str(directory.path)] == made[1:] == [str(path) for path in folder.iterdir()]
    directory.remove()


def test_two_threads_that_remove_one_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = OwnedDirectory("k2k-test-")
    remove, is_removing, may_go_on = shutil.rmtree, threading.Event(), threading.Event()

    def slow(path: Path, ignore_errors: bool) -> None:
        is_removing.set()
        assert may_go_on.wait(10)
        remove(path, ignore_errors=ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", slow)
    with ThreadPoolExecutor(1) as other:
        removed = other.submit(directory.remove)
        assert is_removing.wait(10)
        monkeypatch.setattr(shutil, "rmtree", remove)
        directory.remove()  # as at the end of a program whose Spark has just started
        may_go_on.set()
        removed.result(10)  # the file descriptor was closed once: it may be somebody else's by now
    assert not list(folder.iterdir())
