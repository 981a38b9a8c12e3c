"""The definitions of a pipeline, from the remembered discovery: loading them asks no broker.

Topics and groups come from the discovery state file (`k2k_assets.discovery`). A code location reads it once, when it is
loaded, and passes it to its runs. These are other processes, and between the request of a run and its start topics may
be discovered or deleted.
"""

from __future__ import annotations

import json
import logging
import warnings

import dagster as dg

# Not exported by `dagster` itself, but its own libraries use it; the dependency is `dagster>=1.13,<1.14`.
from dagster._core.definitions.definitions_load_context import StateBackedDefinitionsLoader

from k2k_assets import discovery
from k2k_assets.core.clock import SYSTEM_CLOCK, Clock
from k2k_assets.discovery import Discovery
from k2k_assets.orchestration.hooks import DEFAULT, Hooks
from k2k_assets.orchestration.pipeline_definitions import pipeline_definitions
from k2k_assets.pipeline import Pipeline

_log = logging.getLogger(__name__)


def remembered_definitions(pipeline: Pipeline, hooks: Hooks = DEFAULT, clock: Clock = SYSTEM_CLOCK) -> dg.Definitions:
    """The definitions of a pipeline, from the last discovery.

    Args:
        pipeline: The pipeline.
        hooks: As for `pipeline_definitions`.
        clock: As for `pipeline_definitions`.
    """
    with warnings.catch_warnings():
        # Dagster's own libraries use this too, so its warning at each load is of no use.
        warnings.filterwarnings("ignore", message=".*with_reconstruction_metadata.*")
        return _Remembered(pipeline, hooks, clock).build_defs()


def state_of(found: Discovery | None) -> str:
    """A discovery, or None, as the text from which definitions are loaded."""
    return json.dumps(found.document() if found else None)


def discovery_in(state: str) -> Discovery | None:
    """The discovery in such a text; None if another release wrote it."""
    try:
        document = json.loads(state)
        return Discovery.of(document) if document else None
    except discovery.UNREADABLE as error:
        _log.warning("the state of the definitions cannot be read and is ignored: %s", error)
        return None


class _Remembered(StateBackedDefinitionsLoader[str]):
    def __init__(self, pipeline: Pipeline, hooks: Hooks, clock: Clock) -> None:
        self._pipeline, self._hooks, self._clock = pipeline, hooks, clock

    @property
    def defs_key(self) -> str:
        return f"k2k/discovery/{self._pipeline.name}"

    def fetch_state(self) -> str:
        return state_of(discovery.load(self._pipeline.name))

    def defs_from_state(self, state: str) -> dg.Definitions:
        return pipeline_definitions(self._pipeline, discovery_in(state), self._hooks, self._clock)
