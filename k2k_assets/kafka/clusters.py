"""The two clusters of a pipeline, for as long as somebody looks at them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline


@contextmanager
def both_clusters(pipeline: Pipeline, timeout: float | None = None) -> Iterator[tuple[Cluster, Cluster]]:
    """Source and target.

    Args:
        pipeline: Holds their addresses.
        timeout: Seconds that any call may take; None: as long as `Cluster` has it.
    """
    with (
        Cluster("source", pipeline.client_properties("source", "admin"), timeout) as source,
        Cluster("target", pipeline.client_properties("target", "admin"), timeout) as target,
    ):
        yield source, target
