"""The headers stage: K2K copies the source's headers only when `features.headerReplication` is enabled."""

from __future__ import annotations

from k2k_assets.transport.chunk import Chunk


def drop_headers(chunk: Chunk) -> Chunk:
    """Drops the source's headers."""
    chunk.keep_headers = False
    return chunk
