"""The manifest of a mapping index: the small file that names the current version, and what the index has read.

```
 <index>/manifest.json                                   switched atomically, last
 <index>/versions/00000003-1f2e3d4c/portions.parquet     the valid part of each segment, by source partition
 <index>/segments/00000003-5a6b7c8d/<name>.parquet       runs; never changed once a version names them
```

Files of a version and its segments are kept while the manifest names the version as the current one or as one to keep.
In an object store the manifests are numbered (`manifests/00000003.json`), and each is created where there is none; see
`roots.py`.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from k2k_assets.core.atomic_file import write_atomically
from k2k_assets.core.errors import K2KError
from k2k_assets.core.object_folder import ObjectFolder

VERSION = 2
MANIFEST = "manifest.json"
MANIFESTS = "manifests"
VERSIONS = "versions"
SEGMENTS = "segments"


class IndexUnusable(K2KError):
    """There is no mapping index here, or none that this release and pipeline can use."""


class IndexSuperseded(IndexUnusable):
    """Another build has made a version meanwhile; this one has to begin from there."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True)


class NotedPosition(_Model):
    """A committed position from before the build took the mapping topic's ends."""

    topic: str
    partition: int
    source_topic_id: str
    position: int
    records: int = Field(description="copied by the generation that wrote it")
    began: int | None = Field(default=None, description="where copying of the partition began, if that was noted")
    log_start: int | None = Field(default=None, description="log start of the source at that time, if that was noted")
    target_began: int | None = Field(
        default=None, description="target offset at which copying began behind an adopted copy, if there is one"
    )
    leader_epoch: int | None = Field(default=None, description="leader epoch of the last record copied, if it is known")
    epoch_end: int | None = Field(default=None, description="offset where that epoch holds; none: the position")
    generation: int = Field(default=-1, description="of the instance that wrote it; older releases did not note it")
    sequence: int = Field(default=-1, description="rises with each position of a generation")


class Lost(_Model):
    """Mapping records that retention removed before they were read."""

    partition: int = Field(description="of the mapping topic")
    start: int
    end: int
    before_first_read: bool = Field(description="the index never had anything of this partition before")


class Pruned(_Model):
    """The part of a source partition that `index.retention` has removed from the index."""

    topic: str
    partition: int
    source_topic_id: str
    before: int = Field(description="source offsets below it are not answered for any more")


class Segment(_Model):
    """A segment: a directory of files with runs, which never change."""

    name: str
    runs: int
    mapped: int = Field(description="source records that the runs map")
    since: int = Field(description="time of the oldest mapping record in it, milliseconds since the epoch, UTC")
    until: int = Field(description="time of the newest")


class IndexIdentity(_Model):
    """The group of an index, and the part of the mapping topic that it has read."""

    group: str
    target_cluster: str
    mapping_topic: str
    mapping_topic_id: str
    offsets: dict[int, int] = Field(description="next offset to read, by partition of the mapping topic")
    lost: list[Lost] = []
    earlier_topics: list[str] = Field(default=[], description="ids of mapping topics that it read and that are gone")


class Manifest(IndexIdentity):
    """The manifest: the current version of the index, its segments, and what it has read."""

    version: int = VERSION
    pipeline: str
    source_cluster: str
    directory: str = Field(description="of the current version, under versions/")
    previous: list[str] = Field(default=[], description="versions kept for readers that are still at work")
    number: int = Field(description="rises by one with each version")
    identity: str = Field(default="", description="drawn when it was begun, and anew when it was built from the start")
    time: int = Field(description="milliseconds since the epoch, UTC")
    records_read: int = Field(description="mapping records folded in since the index was begun")
    runs: int
    mapped: int = Field(description="source records that the runs map")
    segments: list[Segment] = Field(default=[], description="oldest first")
    positions: list[NotedPosition] = []
    pruned: list[Pruned] = []
    doubtful: list[tuple[str, str, str, int]] = Field(
        default=[],
        description="source partitions (cluster, topic, topic id, number) of which records may have been lost "
        "since the newest that was read",
    )


class IndexOutdated(IndexUnusable):
    """An older release built the index: this release cannot read its files, but can build it anew.

    Args:
        path: Path of the manifest.
        identity: The identity of the index.
    """

    def __init__(self, path: Path | str, identity: IndexIdentity) -> None:
        super().__init__(f"{path} is of an older release: materialize offset_mappings, which builds the index anew")
        self.identity = identity


def read_manifest(root: Path | ObjectFolder) -> Manifest | None:
    """Reads the manifest of an index; None if there is no index.

    Raises:
        IndexOutdated: An older release wrote the manifest.
        IndexUnusable: The manifest cannot be read, or a newer release wrote it.
        StoreError: The object store does not answer.
    """
    if isinstance(root, ObjectFolder):
        newest = root.newest(MANIFESTS)
        if newest is None:
            return None
        number, content = newest
        return _parsed(f"{root}/{MANIFESTS}/{number:08}.json", content)
    path = root / MANIFEST
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    return _parsed(path, content)


def _parsed(path: Path | str, content: bytes) -> Manifest:
    try:
        document: dict[str, Any] = json.loads(content)
        version = document.get("version")
        if version == 1:
            raise IndexOutdated(path, IndexIdentity.model_validate(document))
        if version != VERSION:
            raise IndexUnusable(f"{path}: version {version!r} is unknown here; upgrade k2k")
        return Manifest.model_validate(document)
    except (ValueError, AttributeError, ValidationError) as error:
        raise IndexUnusable(f"{path} cannot be read ({error}); delete the directory, it is built anew") from None


def switch(root: Path | ObjectFolder, manifest: Manifest) -> None:
    """Makes a version the current one; all files that the manifest names must be written before.

    Raises:
        IndexSuperseded: In an object store: another build was quicker.
        Refused: The object store does not know conditional writes.
        OSError: The manifest cannot be written.
    """
    content = manifest.model_dump_json(indent=1) + "\n"
    if isinstance(root, Path):
        write_atomically(root / MANIFEST, content)
    elif root.add(MANIFESTS, manifest.number, content.encode()):
        root.forget(MANIFESTS, manifest.number)
    else:
        raise IndexSuperseded(f"another process has made version {manifest.number} of the index in {root}")


def new_identity() -> str:
    """Makes a unique name for an index."""
    return uuid.uuid4().hex


def new_name(number: int) -> str:
    """Makes a name for a version or a segment that no other build has used, not even a crashed one."""
    return f"{number:08}-{uuid.uuid4().hex[:8]}"
