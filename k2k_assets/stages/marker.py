"""The marker stage: leaves out records that would come back to where they were written, and marks all others.

```
 a -> b, pipeline p     x                         x  marker: p
 b -> a, pipeline p     x  marker: p              left out, by the rule "marker"
                        y                         y  marker: p
```
"""

from __future__ import annotations

from collections.abc import Callable

from k2k_assets.pipeline.sections.bidirectional import RULE, Marker
from k2k_assets.stages.headers import readable_headers
from k2k_assets.transport.chunk import Chunk


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
        headers = readable_headers(chunk)
        chunk.drop([has is None or echo not in has for has in headers], RULE)
        chunk.carried = marker.header
        chunk.added += added
        return chunk

    return mark
