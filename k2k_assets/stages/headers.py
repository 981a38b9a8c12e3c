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

from collections.abc import Callable, Sequence

from k2k_assets.pipeline.sections.added_headers import AddedHeaders
from k2k_assets.transport.chunk import Chunk, UnreadableRecord
from k2k_assets.transport.headers import Headers


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


def readable_headers(chunk: Chunk) -> Sequence[Headers | None]:
    """The headers of each record, for a stage that decides by them, up to the first one whose headers cannot be read.

    The chunk is cut there: nobody can tell what the stage would make of that record.
    """
    if chunk.count:
        try:
            return chunk.columns().headers()
        except UnreadableRecord as found:
            chunk.cut(found.index, found.reason)
    return chunk.columns().headers()
