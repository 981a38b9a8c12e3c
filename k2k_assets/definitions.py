"""What Dagster loads: the pipelines of a folder, one asset group each. No broker is asked.

The folder is `pipelines/` under the working directory, or the one that `K2K_PIPELINES` names. What the clusters hold
comes from the discovery state files (`k2k_assets.discovery`).
"""

from __future__ import annotations

import json
import logging
import os
import warnings
from pathlib import Path

import dagster as dg

# Not exported by `dagster` itself, but what its own libraries build on; `dagster>=1.13,<1.14` is asked for.
from dagster._core.definitions.definitions_load_context import StateBackedDefinitionsLoader

from k2k_assets import discovery
from k2k_assets.core.errors import K2KError
from k2k_assets.core.home import expanded
from k2k_assets.discovery import Discovery
from k2k_assets.orchestration.assets.broken_files import broken_file_asset
from k2k_assets.orchestration.component import pipeline_definitions
from k2k_assets.pipeline import Pipeline, load_pipeline

FOLDER_VARIABLE = "K2K_PIPELINES"

_log = logging.getLogger(__name__)


def pipelines_folder() -> Path:
    """The folder of the pipeline files."""
    return expanded(os.environ.get(FOLDER_VARIABLE) or "pipelines", FOLDER_VARIABLE)


def load_folder(folder: Path) -> tuple[dict[Path, Pipeline], dict[Path, str]]:
    """Loads every `*.yaml` and `*.yml` of a folder.

    Returns:
        The pipelines by their files, and the files that cannot be used, each with the reason.
    """
    pipelines: dict[Path, Pipeline] = {}
    files: dict[str, Path] = {}
    broken: dict[Path, str] = {}
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        try:
            pipeline = load_pipeline([path])
        except (K2KError, OSError) as error:
            broken[path] = str(error)
            continue
        first = files.setdefault(pipeline.name, path)
        if first != path:
            broken[path] = f"{path}: the name '{pipeline.name}' is taken by {first}; give this pipeline another"
            continue
        pipelines[path] = pipeline
    return pipelines, broken


class PipelineDefinitions(StateBackedDefinitionsLoader[str]):
    """The definitions of all pipelines of a folder.

    A code location reads the discovery state files once, when it is loaded. Its runs get what it has read along: they
    are other processes, and topics may have been discovered, or deleted, between the request of a run and its start.

    Args:
        folder: Holds the pipeline files.
    """

    def __init__(self, folder: Path) -> None:
        self._pipelines, self._broken = load_folder(folder)
        if not self._pipelines and not self._broken:
            _log.warning("no pipeline file (*.yaml, *.yml) in %s; %s names another folder", folder, FOLDER_VARIABLE)
        for path, reason in self._broken.items():
            _log.warning("%s cannot be used and is left out: %s", path, reason)

    @property
    def defs_key(self) -> str:
        """Names the state among a run's data."""
        return "k2k/discovery"

    def build_defs(self) -> dg.Definitions:
        """The definitions, with the state that they were built from."""
        with warnings.catch_warnings():
            # What Dagster's own libraries do need not be said at each load.
            warnings.filterwarnings("ignore", message=".*with_reconstruction_metadata.*")
            # In beta for years; the release of Dagster is pinned to a minor one.
            for used in ("multi_observable_source_asset", "CodeReference"):
                warnings.filterwarnings("ignore", category=dg.BetaWarning, message=f".*{used}.*")
            return super().build_defs()

    def fetch_state(self) -> str:
        """What the state files hold, as one JSON document."""
        found = [discovery.load(pipeline.name) for pipeline in self._pipelines.values()]
        return json.dumps([one.document() for one in found if one])

    def defs_from_state(self, state: str) -> dg.Definitions:
        """The definitions, from the pipeline files and `fetch_state` alone."""
        found = {one.pipeline: one for one in map(Discovery.of, json.loads(state))}
        parts = [pipeline_definitions(pipeline, found.get(pipeline.name)) for pipeline in self._pipelines.values()]
        # A run owns its JVM: steps in processes of their own would each start one.
        common = dg.Definitions(
            assets=[broken_file_asset(path, reason) for path, reason in self._broken.items()],
            executor=dg.in_process_executor,
        )
        return dg.Definitions.merge(common, *parts)


def build_definitions(folder: Path) -> dg.Definitions:
    """The definitions of all pipelines of a folder."""
    return PipelineDefinitions(folder).build_defs()


@dg.definitions
def defs() -> dg.Definitions:
    """What `dagster dev`, `dagster definitions validate` and `dg check defs` load."""
    return build_definitions(pipelines_folder())
