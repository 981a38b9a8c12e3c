"""The headers stages: whether the source's headers are copied, and which are added behind them.

```
  source                     a: 1   b: null   a: 2
  headerReplication          a: 1   b: null   a: 2   __k2k_partition: 3   __k2k_offset: 120     enabled
                                                     __k2k_partition: 3   __k2k_offset: 120     disabled
```

K2K copies the source's headers only when `features.headerReplication` is enabled. Whoever reads the last header of a
name gets the added one, also where the source has one of that name.
"""

from __future__ import annotations

from collections.abc import Callable

from k2k_assets.pipeline.added_headers import AddedHeaders
from k2k_assets.transport.chunk import Chunk


def drop_headers(chunk: Chunk) -> Chunk:
    """Drops the source's headers."""
    chunk.keep_headers = False
    return chunk


def header_adder(headers: AddedHeaders) -> Callable[[Chunk], Chunk]:
    """Makes the stage that adds headers behind those that a record has, and behind those of earlier stages.

    Args:
        headers: What to add, in order.
    """

    def add(chunk: Chunk) -> Chunk:
        chunk.added += headers
        return chunk

    return add
