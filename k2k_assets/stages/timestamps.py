"""The timestamp stage: without `features.keepRecordCreationTimestamp` the target assigns timestamps."""

from __future__ import annotations

from k2k_assets.transport.chunk import Chunk


def drop_timestamps(chunk: Chunk) -> Chunk:
    """Drops the source's timestamps."""
    chunk.keep_timestamps = False
    return chunk
