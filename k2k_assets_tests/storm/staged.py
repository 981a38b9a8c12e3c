"""All stages of a storm, for one direction and for both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from k2k_assets_tests.storm.failing import Failing
from k2k_assets_tests.storm.stages import MappedSchemas, Marked, Stages, Together, Transformed, mapped_schemas
from k2k_assets_tests.support.brokers.kafka import unique


@contextmanager
def all_stages(directory: Path) -> Iterator[list[Stages]]:
    """All of them, for one direction.

    Args:
        directory: For the logs of registries.
    """
    with mapped_schemas(directory) as schemas:
        yield [Together(Marked(unique("storm-marked")), Transformed(), Failing(), schemas)]


@contextmanager
def stages_both_ways(directory: Path, clusters: tuple[str, str] | None) -> Iterator[list[Stages]]:
    """All of them, for each direction.

    Args:
        directory: For the logs of registries.
        clusters: Their ids, if markers hold those, and not the name of the pipelines.
    """
    name = unique("storm-both")
    back = (clusters[1], clusters[0]) if clusters else None
    with mapped_schemas(directory) as schemas:
        opposite = MappedSchemas(schemas.target, schemas.source)
        yield [
            Together(Marked(name, ids, echoes=False), Transformed(), Failing(), each)
            for ids, each in ((clusters, schemas), (back, opposite))
        ]
