"""The file that keeps, beside the index, how far the content was verified.

It goes where the index goes: whoever opens the same index goes on from there, Dagster or not, on whatever machine; and
who deletes the index deletes what was said of it. Where the file cannot be read all is looked at once more, and what
was wrong has to be found again.
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
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.index import MappingIndex
from k2k_assets.pipeline import Pipeline
from k2k_assets.verification.verified import Verified

# Rises when the check finds more than it did: then what was verified before is looked at once more.
_VERSION = 1


class Ground(BaseModel):
    """What a verified position rests on; where anything of it changes all of them fall back.

    Attributes:
        version: Of the check.
        cluster: Id of the source cluster.
        index: Identity of the index: another one after it was built anew.
        settings: Of the copy, as the pipeline's file has them: they stand in for those that were not noted.
    """

    model_config = ConfigDict(frozen=True)

    version: int = _VERSION
    cluster: str
    index: str
    settings: str

    @classmethod
    def of(cls, pipeline: Pipeline, index: MappingIndex, cluster: str) -> Ground:
        """The ground of today."""
        return cls(cluster=cluster, index=index.manifest.identity, settings=CopySettings.of(pipeline).fingerprint)


class _Noted(BaseModel):
    model_config = ConfigDict(frozen=True)

    topic: str
    topic_id: str
    partition: int
    verified: Verified


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True)

    ground: Ground
    turn: int
    budget: int
    partitions: list[_Noted]


class Known(NamedTuple):
    """What an evaluation goes out from.

    Attributes:
        turn: Its number.
        budget: Offsets that it may look at; None: as many as there may be.
        verified: What is known of each source partition.
    """

    turn: int = 0
    budget: int | None = None
    verified: Mapping[SourcePartition, Verified] = MappingProxyType({})


class VerifiedNotes:
    """The notes on an index.

    Args:
        root: Directory of the index.
        ground: Of today.
    """

    def __init__(self, root: Path, ground: Ground) -> None:
        self.path = root / "checks" / "content.json"
        self._ground = ground

    def read(self) -> Known:
        """What is known; nothing where there is no file that can be read."""
        try:
            document = _Document.model_validate_json(self.path.read_bytes())
        except (OSError, ValidationError):
            return Known()
        is_sound = document.ground == self._ground
        verified = {
            SourcePartition(document.ground.cluster, each.topic, each.topic_id, each.partition): (
                each.verified if is_sound else each.verified.fallen_back()
            )
            for each in document.partitions
        }
        return Known(document.turn + 1, document.budget, verified)

    def write(self, turn: int, budget: int, verified: Mapping[SourcePartition, Verified]) -> None:
        """Replaces the notes.

        Args:
            turn: Number of this evaluation.
            budget: Of the next one.
            verified: What is known of each source partition.

        Raises:
            OSError: The directory cannot be written.
        """
        partitions = [
            _Noted(topic=at.topic, topic_id=at.topic_id, partition=at.partition, verified=each)
            for at, each in sorted(verified.items())
        ]
        document = _Document(ground=self._ground, turn=turn, budget=budget, partitions=partitions)
        write_atomically(self.path, document.model_dump_json() + "\n")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One evaluation at a time changes the notes; the lock goes with the process.

        Raises:
            OSError: The directory cannot be written.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with (self.path.parent / ".lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
