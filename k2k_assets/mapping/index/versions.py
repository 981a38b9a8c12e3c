"""The versions of an index on disk: opens them, and removes those that no reader can need any more."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from k2k_assets.core.atomic_file import remove_leftovers
from k2k_assets.mapping.index.manifest import MANIFEST, SEGMENTS, VERSIONS, IndexUnusable, Manifest, read_manifest
from k2k_assets.mapping.index.portion_table import read_portions
from k2k_assets.mapping.index.roots import IndexRoot, existing, remove, remove_copies, root_of
from k2k_assets.pipeline import Pipeline

_ATTEMPTS = 5


def open_version(pipeline: Pipeline) -> tuple[IndexRoot, Manifest, pa.Table]:
    """Opens the current version of a pipeline's index: its directory, manifest and table of portions.

    Raises:
        IndexUnusable: There is no index yet, or it cannot be read.
    """
    root = root_of(pipeline)
    for _ in range(_ATTEMPTS):
        manifest = read_manifest(root)
        if manifest is None:
            raise IndexUnusable(f"no mapping index in {root} yet: materialize offset_mappings first")
        try:
            portions = read_portions(root, manifest.directory)
        except FileNotFoundError:
            continue  # builds have replaced this version since the manifest was read
        # Older versions are left: somebody else on this machine may have them open.
        segments = {segment.name for segment in manifest.segments}
        remove_copies(root, SEGMENTS, segments, manifest.number)
        remove_copies(root, VERSIONS, {manifest.directory, *manifest.previous}, manifest.number)
        return root, manifest, portions
    raise IndexUnusable(f"{root} names a version that is not there; delete the directory, it is built anew")


def has_all_files(root: IndexRoot, files: Iterable[tuple[str, str]]) -> bool:
    """Whether all files exist; they do not if somebody deleted the directory during an update, for example.

    Args:
        root: Directory of the index.
        files: Segment and name of each file.
    """
    if isinstance(root, Path):
        return all((root / SEGMENTS / segment / file).exists() for segment, file in files)
    return set(files) <= existing(root, SEGMENTS)


def remove_what_nobody_needs(root: IndexRoot, manifest: Manifest) -> None:
    """Removes versions and segments that the manifest does not keep, and files that crashed builds left behind.

    Args:
        root: Directory of the index.
        manifest: The current manifest.
    """
    versions = {manifest.directory, *manifest.previous}
    segments = {segment.name for segment in manifest.segments}
    for version in manifest.previous:
        with suppress(FileNotFoundError):
            segments.update(read_portions(root, version, ["segment"])["segment"].unique().to_pylist())
    for folder, kept in ((VERSIONS, versions), (SEGMENTS, segments)):
        remove(root, folder, kept, manifest.number)
    if isinstance(root, Path):  # there a lock keeps other builds away
        remove_leftovers(root / MANIFEST)
