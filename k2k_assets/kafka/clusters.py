"""Opens both clusters of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline


@contextmanager
def both_clusters(pipeline: Pipeline, timeout: float | None = None) -> Iterator[tuple[Cluster, Cluster]]:
    """Opens source and target of a pipeline, and closes them at the end.

    Args:
        pipeline: Names both clusters.
        timeout: Seconds that any call may take; None: the default of `Cluster`.
    """
    with (
        Cluster("source", pipeline.client_properties("source", "admin"), timeout) as source,
        Cluster("target", pipeline.client_properties("target", "admin"), timeout) as target,
    ):
        yield source, target
