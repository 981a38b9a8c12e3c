"""What Dagster loads: the pipelines of a folder, one asset group each. No broker is asked.

The folder is `pipelines/` under the working directory, or the one that `K2K_PIPELINES` names. What the clusters hold
comes from the discovery state files (`k2k_assets.automation.discovery`).
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

import dagster as dg

from k2k_assets.assets.broken_files import broken_file_asset
from k2k_assets.assets.pipeline_definitions import pipeline_definitions
from k2k_assets.automation import discovery
from k2k_assets.errors import K2KError
from k2k_assets.pipeline import Pipeline, load_pipeline

FOLDER_VARIABLE = "K2K_PIPELINES"

_log = logging.getLogger(__name__)


def pipelines_folder() -> Path:
    """The folder of the pipeline files."""
    return Path(os.environ.get(FOLDER_VARIABLE) or "pipelines").expanduser()


def load_folder(folder: Path) -> tuple[list[Pipeline], dict[Path, str]]:
    """Loads every `*.yaml` and `*.yml` of a folder.

    Returns:
        The pipelines, and the files that cannot be used, each with the reason.
    """
    pipelines: dict[str, tuple[Path, Pipeline]] = {}
    broken: dict[Path, str] = {}
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        try:
            pipeline = load_pipeline([path])
        except (K2KError, OSError) as error:
            broken[path] = str(error)
            continue
        if pipeline.name in pipelines:
            first = pipelines[pipeline.name][0]
            broken[path] = f"{path}: the name '{pipeline.name}' is taken by {first}; give this pipeline another"
            continue
        pipelines[pipeline.name] = path, pipeline
    return [pipeline for _, pipeline in pipelines.values()], broken


def build_definitions(folder: Path) -> dg.Definitions:
    """The definitions of all pipelines of a folder."""
    pipelines, broken = load_folder(folder)
    if not pipelines and not broken:
        _log.warning("no pipeline file (*.yaml, *.yml) in %s; %s names another folder", folder, FOLDER_VARIABLE)
    for path, reason in broken.items():
        _log.warning("%s cannot be used and is left out: %s", path, reason)
    parts = [
        pipeline_definitions(pipeline, discovery.load(pipeline.name), alone=len(pipelines) == 1)
        for pipeline in pipelines
    ]
    # A run owns its JVM: steps in processes of their own would each start one.
    common = dg.Definitions(
        assets=[broken_file_asset(path, reason) for path, reason in broken.items()],
        executor=dg.in_process_executor,
    )
    return dg.Definitions.merge(common, *parts)


defs = build_definitions(pipelines_folder())
