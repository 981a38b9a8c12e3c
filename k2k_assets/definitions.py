"""What Dagster loads: the pipelines of a folder, one asset group each. No broker is asked.

The folder is `pipelines/` under the working directory, or the one that `K2K_PIPELINES` names. What the clusters hold
comes from the discovery state files (`k2k_assets.discovery`).
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from pathlib import Path

import dagster as dg

from k2k_assets.core.clock import SYSTEM_CLOCK, Clock
from k2k_assets.core.errors import K2KError
from k2k_assets.core.state_path import expanded
from k2k_assets.groups.mapper_file import load_mapper_pipeline
from k2k_assets.orchestration.assets.broken_files import broken_file_asset
from k2k_assets.orchestration.assets.mapper_files import mapper_file_asset
from k2k_assets.orchestration.maintenance.job import maintenance_definitions
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.remembered import remembered_definitions
from k2k_assets.pipeline import Pipeline, is_for_mapper_alone, load_pipeline

FOLDER_VARIABLE = "K2K_PIPELINES"

_log = logging.getLogger(__name__)


def pipelines_folder() -> Path:
    """The folder of the pipeline files."""
    return expanded(os.environ.get(FOLDER_VARIABLE) or "pipelines", FOLDER_VARIABLE)


@dataclass(frozen=True)
class Folder:
    """What is in a folder of pipeline files.

    Attributes:
        pipelines: By their files.
        mappers: Files for the offset mapper alone: they are used by a program of their own.
        broken: Files that cannot be used, each with the reason.
    """

    pipelines: dict[Path, Pipeline] = field(default_factory=dict)
    mappers: dict[Path, Pipeline] = field(default_factory=dict)
    broken: dict[Path, str] = field(default_factory=dict)


def load_folder(folder: Path) -> Folder:
    """Loads every `*.yaml` and `*.yml` of a folder."""
    found = Folder()
    files: dict[str, Path] = {}
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        try:
            if is_for_mapper_alone(path):
                found.mappers[path] = load_mapper_pipeline([path])
                continue
            pipeline = load_pipeline([path])
        except (K2KError, OSError) as error:
            found.broken[path] = str(error)
            continue
        first = files.setdefault(pipeline.name, path)
        if first != path:
            found.broken[path] = f"{path}: the name '{pipeline.name}' is taken by {first}; give this pipeline another"
            continue
        found.pipelines[path] = pipeline
    return found


def build_definitions(folder: Path, clock: Clock = SYSTEM_CLOCK) -> dg.Definitions:
    """The definitions of all pipelines of a folder.

    Args:
        folder: Holds the pipeline files.
        clock: That of the sensors.
    """
    found = load_folder(folder)
    if not (found.pipelines or found.mappers or found.broken):
        _log.warning("no pipeline file (*.yaml, *.yml) in %s; %s names another folder", folder, FOLDER_VARIABLE)
    for path, reason in found.broken.items():
        _log.warning("%s cannot be used and is left out: %s", path, reason)
    parts = [remembered_definitions(pipeline, clock=clock) for pipeline in found.pipelines.values()]
    common = dg.Definitions(
        assets=[
            *(broken_file_asset(path, reason) for path, reason in found.broken.items()),
            *(mapper_file_asset(path, pipeline.name) for path, pipeline in found.mappers.items()),
        ],
        # Nobody else's assets are here. In one process a run needs one JVM, and is done sooner.
        executor=dg.in_process_executor,
    )
    if found.pipelines:
        names = [AssetNames(pipeline.name) for pipeline in found.pipelines.values()]
        parts.append(maintenance_definitions(names, parts))
    return dg.Definitions.merge(common, *parts)


@dg.definitions
def defs() -> dg.Definitions:
    """What `dagster dev`, `dagster definitions validate` and `dg check defs` load."""
    return build_definitions(pipelines_folder())
