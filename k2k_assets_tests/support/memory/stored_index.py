"""An index in an object store in memory, which several machines work on: each has copies of its own, and steps."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.core import object_folder
from k2k_assets.core.object_folder import ObjectFolder
from k2k_assets.core.state_path import asked
from k2k_assets.mapping.algebra.partition_map import PartitionMap, SourcePartition
from k2k_assets.mapping.index import roots
from k2k_assets.mapping.index.build import updated_beside_others
from k2k_assets.mapping.index.manifest import SEGMENTS, VERSIONS, Manifest, read_manifest
from k2k_assets.mapping.index.portion_table import read_portions
from k2k_assets.mapping.index.roots import existing
from k2k_assets.mapping.index.update import Update
from k2k_assets_tests.support.memory.mapping_topic import GROUP, TOPIC, LocalIndex, LocalJobs, MappingTopic

SECONDS = 30.0


class Killed(BaseException):
    """Ends an update as SIGKILL would: nothing is cleaned up."""


class Machines:
    """What differs between machines that work on one store: the folder of copies, and what happens at each step.

    Args:
        directory: For the copies.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._here = threading.local()

    @contextmanager
    def on(self, name: str, step: Callable[[str], None] = lambda _: None) -> Iterator[None]:
        """Runs the body on a machine; `step` is called before and after each request to the store."""
        before = getattr(self._here, "machine", None)
        self._here.machine = (name, step)
        try:
            yield
        finally:
            self._here.machine = before

    def cache_directory(self) -> Path:
        """The folder of copies of the machine of this thread."""
        name, _ = getattr(self._here, "machine", None) or ("any", None)
        return self._directory / name

    def asked(self, address: str, question: Callable[[Any, str], Any], seconds: float | None = None) -> Any:
        """Asks the store, with a step before and after."""
        _, step = getattr(self._here, "machine", None) or ("any", lambda _: None)
        step(f"before {address}")
        answer = asked(address, question, seconds)
        step(f"after {address}")
        return answer


@dataclass
class StoredIndex:
    """An index in an object store."""

    machines: Machines
    root: ObjectFolder = field(default_factory=lambda: ObjectFolder(f"memory://{uuid.uuid4().hex}/index"))
    topic: MappingTopic = field(default_factory=lambda: MappingTopic(partitions=[[]], starts={0: 0}))
    retention: int | None = None
    now: int = 0

    def update(self) -> Manifest:
        """Updates it, as `update_index` does without Spark."""
        jobs = LocalJobs(self.topic)
        update = Update(self.root, "p", GROUP, TOPIC, self.retention, jobs, self.topic.find_unread, lambda: self.now)
        return updated_beside_others(update, self.root)

    def maps(self) -> dict[SourcePartition, PartitionMap]:
        """All maps of the current version; none if there is no index."""
        return LocalIndex(self.root, self.topic).maps() if read_manifest(self.root) else {}

    def left(self) -> tuple[set[str], set[str]]:
        """Names of the versions and segments that lie there."""
        versions, segments = ({name for name, _ in existing(self.root, folder)} for folder in (VERSIONS, SEGMENTS))
        return versions, segments

    def needed(self) -> tuple[set[str], set[str]]:
        """Names of those that open versions name; a portion without runs may have a segment's name and no file."""
        manifest = read_manifest(self.root)
        assert manifest
        versions, segments = self.left()
        kept = {manifest.directory, *manifest.previous} & versions
        named = {name for version in kept for name in read_portions(self.root, version)["segment"].to_pylist()}
        return kept, named & segments


@contextmanager
def stored_index(directory: Path) -> Iterator[StoredIndex]:
    """An empty index in a new store, and machines with their copies in a folder."""
    machines = Machines(directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(object_folder, "asked", machines.asked)
        patch.setattr(roots, "cache_directory", machines.cache_directory)
        yield StoredIndex(machines)


def together(actions: list[Callable[[], object]], machines: Machines, next_turn: Callable[[int], int]) -> None:
    """Runs actions at once, each on a machine of its own, one request to the store at a time.

    Args:
        actions: The actions.
        machines: Where.
        next_turn: Which of so many goes on, asked in this thread before each step.
    """
    gates = [threading.Semaphore(0) for _ in actions]
    arrived = threading.Semaphore(0)
    left = list(range(len(actions)))
    errors: list[BaseException] = []

    def run(number: int, action: Callable[[], object]) -> None:
        def step(_: str) -> None:
            arrived.release()
            assert gates[number].acquire(timeout=SECONDS)

        try:
            with machines.on(f"machine-{number}", step):
                step("begin")
                action()
        except BaseException as error:
            errors.append(error)
        finally:
            left.remove(number)
            arrived.release()

    for number, action in enumerate(actions):
        threading.Thread(target=run, args=(number, action), daemon=True).start()
        assert arrived.acquire(timeout=SECONDS)
    while left and not errors:
        gates[left[next_turn(len(left))]].release()
        assert arrived.acquire(timeout=SECONDS)
    if errors:
        raise errors[0]
