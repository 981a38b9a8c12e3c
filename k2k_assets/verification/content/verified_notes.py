"""The file beside the index that keeps how far the content is verified.

It is moved and deleted together with the index, so each program that opens the same index continues from these notes,
with Dagster or without, on any machine. In an object store the notes are numbered, as the manifests are. If the file
cannot be read, everything is compared again, and faults have to be found again.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.core.atomic_file import write_atomically
from k2k_assets.core.object_folder import ObjectFolder
from k2k_assets.core.state_path import StoreError
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.index import MappingIndex
from k2k_assets.mapping.index.roots import IndexRoot
from k2k_assets.pipeline import Pipeline
from k2k_assets.verification.content.verified import Verified

# Rises when a release makes the check stricter; then everything is compared again.
_VERSION = 1
_CONTENT = "content"


class NotedMeanwhile(StoreError):
    """Another evaluation has written notes since these were read: read them again."""


class Conditions(BaseModel):
    """The conditions of all verified positions; if one of them changes, all positions fall back.

    Attributes:
        version: Version of the check.
        cluster: Id of the source cluster.
        index: Identity of the index, which changes when the index is built anew.
        settings: Fingerprint of the pipeline's present copy settings, which are used where none were noted.
    """

    model_config = ConfigDict(frozen=True)

    version: int = _VERSION
    cluster: str
    index: str
    settings: str

    @classmethod
    def of(cls, pipeline: Pipeline, index: MappingIndex, cluster: str) -> Conditions:
        """The present conditions, for a pipeline, an index and the id of the source cluster."""
        return cls(cluster=cluster, index=index.manifest.identity, settings=CopySettings.of(pipeline).fingerprint)


class _Noted(BaseModel):
    model_config = ConfigDict(frozen=True)

    topic: str
    topic_id: str
    partition: int
    verified: Verified


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True)

    ground: Conditions
    turn: int
    budget: int
    partitions: list[_Noted]


class Known(NamedTuple):
    """The notes from which an evaluation starts.

    Attributes:
        turn: Number of the evaluation.
        budget: Number of offsets that it may compare; None: the default.
        verified: Notes on each source partition.
    """

    turn: int = 0
    budget: int | None = None
    verified: Mapping[SourcePartition, Verified] = MappingProxyType({})


class VerifiedNotes:
    """Reads and writes the notes on an index.

    Args:
        root: Directory of the index.
        conditions: The present conditions; notes under other ones do not count.
    """

    def __init__(self, root: IndexRoot, conditions: Conditions) -> None:
        self.path: Path | ObjectFolder = root / "checks" / "content.json"
        if isinstance(root, ObjectFolder):
            self.path = root / "checks"
        self._conditions = conditions
        self._number = 0

    def read(self) -> Known:
        """Reads the notes; they are empty if the file cannot be read."""
        try:
            document = _Document.model_validate_json(self._content())
        except (OSError, ValidationError):
            return Known()
        is_sound = document.ground == self._conditions
        verified = {
            SourcePartition(document.ground.cluster, each.topic, each.topic_id, each.partition): (
                each.verified if is_sound else each.verified.fallen_back()
            )
            for each in document.partitions
        }
        return Known(document.turn + 1, document.budget, verified)

    def _content(self) -> bytes:
        if isinstance(self.path, Path):
            return self.path.read_bytes()
        # What cannot be read keeps its number, so that what replaces it has a higher one.
        newest = self.path.newest(_CONTENT)
        self._number, content = newest or (0, b"")
        return content

    def write(self, turn: int, budget: int, verified: Mapping[SourcePartition, Verified]) -> None:
        """Replaces the notes.

        Args:
            turn: Number of this evaluation.
            budget: Budget of the next evaluation.
            verified: Notes on each source partition.

        Raises:
            NotedMeanwhile: In an object store: another evaluation has written notes since these were read.
            OSError: The directory cannot be written.
        """
        partitions = [
            _Noted(topic=at.topic, topic_id=at.topic_id, partition=at.partition, verified=each)
            for at, each in sorted(verified.items())
        ]
        document = _Document(ground=self._conditions, turn=turn, budget=budget, partitions=partitions)
        content = document.model_dump_json() + "\n"
        if isinstance(self.path, Path):
            write_atomically(self.path, content)
        elif self.path.add(_CONTENT, self._number + 1, content.encode()):
            self.path.forget(_CONTENT, self._number + 1)
        else:
            raise NotedMeanwhile(f"another evaluation has written notes in {self.path}")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Locks the notes, so that one evaluation at a time changes them; the lock ends with the process.

        In an object store nothing is locked: `write` fails instead.

        Raises:
            OSError: The directory cannot be written.
        """
        if isinstance(self.path, ObjectFolder):
            yield
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with (self.path.parent / ".lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
