"""The marker stage: leaves out records that would come back to where they were written, and marks all others.

```
 a -> b, pipeline p     x                         x  marker: p
 b -> a, pipeline p     x  marker: p              left out, by the rule "marker"
                        y                         y  marker: p
```
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from k2k_assets.pipeline.bidirectional import RULE, Marker
from k2k_assets.transport.chunk import Chunk, UnreadableRecord
from k2k_assets.transport.headers import Headers


def marker_stage(marker: Marker, source_cluster: str, target_cluster: str) -> Callable[[Chunk], Chunk]:
    """Makes the stage.

    Args:
        marker: The marker of the pipeline.
        source_cluster: Source cluster id.
        target_cluster: Target cluster id.
    """
    echo = marker.of_echoes(target_cluster)
    added = (marker.of_copies(source_cluster),)

    def mark(chunk: Chunk) -> Chunk:
        headers = _readable(chunk)
        chunk.drop([has is None or echo not in has for has in headers], RULE)
        chunk.carried = marker.header
        chunk.added += added
        return chunk

    return mark


def _readable(chunk: Chunk) -> Sequence[Headers | None]:
    """The headers of each record, up to the first one whose headers cannot be read: it may be an echo or not."""
    if chunk.count:
        try:
            return chunk.columns().headers()
        except UnreadableRecord as found:
            chunk.cut(found.index, found.reason)
    return chunk.columns().headers()
