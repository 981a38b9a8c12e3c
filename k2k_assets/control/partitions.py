"""The partition of a control topic in which a record lies. Pure: every process and release must agree on it."""

from __future__ import annotations

import zlib

from k2k_assets.pipeline import Pipeline


def stable_hash(data: bytes) -> int:
    """A hash that is the same in every process and release."""
    return zlib.crc32(data)


def commit_partition(pipeline: Pipeline, key: bytes, partitions: int) -> int:
    """The partition of the commit topic for a key; one for all of a group if the pipeline says so."""
    spread_by = pipeline.group.encode() if pipeline.features.optimize_offset_commit_partition else key
    return stable_hash(spread_by) % partitions


def mapping_partition(key: bytes, partitions: int) -> int:
    """The partition of the mapping topic for a key: one for all records of a source partition."""
    return stable_hash(key) % partitions
