"""The manifest of a mapping index: the one small file that says which version is the index, and what it has read.

```
 <index>/manifest.json                     switched atomically, last
 <index>/versions/00000003-1f2e3d4c/runs/      Parquet, never changed once the manifest names it
 <index>/versions/00000003-1f2e3d4c/coverage/
```
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from k2k_assets.atomic_file import write_atomically
from k2k_assets.errors import K2KError

VERSION = 1
MANIFEST = "manifest.json"
VERSIONS = "versions"


class IndexUnusable(K2KError):
    """There is no mapping index here, or none that this release and pipeline can use."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True)


class Position(_Model):
    """A committed position, as it was before the mapping topic's ends were taken."""

    topic: str
    partition: int
    source_topic_id: str
    position: int
    records: int = Field(description="copied by the generation that wrote it")


class Lost(_Model):
    """Mapping records that retention removed before they were read."""

    partition: int = Field(description="of the mapping topic")
    start: int
    end: int
    before_first_read: bool = Field(description="the index never had anything of this partition before")


class Manifest(_Model):
    """What the index consists of."""

    version: int = VERSION
    pipeline: str
    group: str
    source_cluster: str
    target_cluster: str
    mapping_topic: str
    mapping_topic_id: str
    offsets: dict[int, int] = Field(description="next offset to read, by partition of the mapping topic")
    directory: str = Field(description="of the current version, under versions/")
    previous: str | None = Field(description="kept for readers that are still at work")
    number: int = Field(description="rises by one with each version")
    time: int = Field(description="milliseconds since the epoch, UTC")
    records_read: int = Field(description="mapping records folded in since the index was begun")
    runs: int
    mapped: int = Field(description="source records that the runs map")
    positions: list[Position] = []
    lost: list[Lost] = []


def read_manifest(root: Path) -> Manifest | None:
    """The manifest of an index; None when there is no index.

    Raises:
        IndexUnusable: It cannot be read, or a newer release wrote it.
    """
    path = root / MANIFEST
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document.get("version") != VERSION:
            raise IndexUnusable(f"{path}: version {document.get('version')!r} is unknown here; upgrade k2k")
        return Manifest.model_validate(document)
    except FileNotFoundError:
        return None
    except (ValueError, AttributeError, ValidationError) as error:
        raise IndexUnusable(f"{path} cannot be read ({error}); delete the directory, it is built anew") from None


def switch(root: Path, manifest: Manifest) -> None:
    """Makes a version the index, then removes those that nobody needs: all but this and the one before."""
    write_atomically(root / MANIFEST, manifest.model_dump_json(indent=1) + "\n")
    remove_versions_except(root, {manifest.directory, manifest.previous})


def remove_versions_except(root: Path, kept: set[str | None]) -> None:
    """Removes old versions and what crashed builds left behind."""
    for version in (root / VERSIONS).glob("*"):
        if version.name not in kept:
            shutil.rmtree(version, ignore_errors=True)
