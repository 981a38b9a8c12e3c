"""`build_k2k_assets`: the definitions of a pipeline, which a project can merge with its own."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike

import dagster as dg

from k2k_assets.orchestration.maintenance.job import with_maintenance
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.remembered import remembered_definitions
from k2k_assets.pipeline import load_pipeline


def build_k2k_assets(path: str | PathLike[str] | Sequence[str | PathLike[str]]) -> dg.Definitions:
    """The definitions of one pipeline: assets, checks, jobs, sensors, the schedule of maintenance, the Spark resource.

    They set no executor and only their own resource, so they merge with other definitions. They ask no broker: topics
    and groups come from the discovery state file, which the sensors, runs and `k2k start` write.

    Args:
        path: The pipeline file. Several files are merged, later ones over earlier ones, as with `k2k start -f`.

    Returns:
        The definitions, for `dagster.Definitions.merge`.

    Raises:
        PipelineFileError: The file cannot be used; the message lists every fault with its line.
    """
    pipeline = load_pipeline(path)
    return with_maintenance(remembered_definitions(pipeline), AssetNames(pipeline.name))
