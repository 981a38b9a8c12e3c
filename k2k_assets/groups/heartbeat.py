"""The heartbeats of a mapper."""

from __future__ import annotations

from k2k_assets.control.mapper_claims import MapperHeartbeat
from k2k_assets.coordination.heartbeats import Heartbeats
from k2k_assets.pipeline import Pipeline


def mapper_heartbeats(pipeline: Pipeline, run: str | None = None) -> Heartbeats:
    """The heartbeats of a mapper of this process.

    Args:
        pipeline: The mapper's pipeline.
        run: Id of the mapper's Dagster run; None outside Dagster.
    """
    mapper = MapperHeartbeat.new(pipeline.name, pipeline.group, run)

    def beat() -> tuple[bytes, bytes]:
        heartbeat = mapper.now()
        return heartbeat.key_bytes(), heartbeat.value_bytes()

    return Heartbeats(pipeline, beat)
