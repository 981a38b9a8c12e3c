"""`build_k2k_assets`: a pipeline as definitions, to merge with one's own."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike

import dagster as dg

from k2k_assets.orchestration.remembered import remembered_definitions
from k2k_assets.pipeline import load_pipeline


def build_k2k_assets(path: str | PathLike[str] | Sequence[str | PathLike[str]]) -> dg.Definitions:
    """The definitions of one pipeline: assets, checks, jobs, sensors and the Spark resource.

    They set no executor and no resource but their own, so they merge with definitions that do. No broker is asked: what
    the clusters hold comes from the discovery state file, which the sensors, runs and `k2k start` write.

    Args:
        path: The pipeline file. Several are one pipeline, later files over earlier ones, as with `k2k start -f`.

    Returns:
        The definitions; `dagster.Definitions.merge` takes them.

    Raises:
        PipelineFileError: The file cannot be used; the message lists every fault with its line.
    """
    return remembered_definitions(load_pipeline(path))
