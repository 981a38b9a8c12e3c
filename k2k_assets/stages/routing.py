"""The routing stage: sets the target topic and partition of a chunk."""

from __future__ import annotations

from collections.abc import Callable

from k2k_assets.pipeline.sections.routing import Routing
from k2k_assets.transport.chunk import Chunk


def router(routing: Routing) -> Callable[[Chunk], Chunk]:
    """Makes the stage that sets target topic and partition.

    Args:
        routing: The pipeline's `replication[].sink` settings.
    """
    known: dict[str, tuple[str, bool]] = {}

    def route(chunk: Chunk) -> Chunk:
        topic = chunk.source.topic
        found = known.get(topic)
        if found is None:
            found = known[topic] = routing.target_topic(topic), routing.keeps_partition(topic)
        chunk.target_topic, same_partition = found
        chunk.target_partition = chunk.source.partition if same_partition else None
        return chunk

    return route
