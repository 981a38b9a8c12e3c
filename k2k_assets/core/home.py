"""Where k2k keeps what it must remember: discovery state files, mapping indexes, turns of checks.

Nothing here is needed for exactly-once copying (that state is on the target cluster); all of it can be deleted
and is built again. State files may lie in an object store. The index may not: builds of it lock each other out, and
Spark reads its files.
"""

from __future__ import annotations

import os
from pathlib import Path

from k2k_assets.core.errors import Refused
from k2k_assets.core.naming import escape
from k2k_assets.core.state_path import StatePath

HOME_VARIABLE = "K2K_HOME"


def home() -> StatePath:
    """The state directory: `K2K_HOME`, or `~/.k2k`.

    Raises:
        K2KError: The user has no home directory, or it is an address of something that is no object store.
    """
    return StatePath.of(os.environ.get(HOME_VARIABLE) or "~/.k2k", HOME_VARIABLE)


def discovery_file(pipeline_name: str) -> StatePath:
    """The discovery state file of a pipeline; raises as `home` does."""
    return home() / "discovery" / f"{escape(pipeline_name)}.json"


def turn_file(pipeline_name: str) -> StatePath:
    """The file with the turn of a pipeline's checks (`verification.turns`); raises as `home` does."""
    return home() / "checks" / f"{escape(pipeline_name)}.json"


def index_directory(pipeline_name: str, configured: str | None = None) -> Path:
    """The directory of a pipeline's mapping index.

    Args:
        pipeline_name: The pipeline's `name`.
        configured: `index.path` of the pipeline file; wins over the default.

    Raises:
        K2KError: The user has no home directory.
        Refused: It would lie in an object store.
    """
    path = StatePath.of(configured, "index.path") if configured else home() / "index" / escape(pipeline_name)
    if path.local is None:
        raise Refused(
            f"the index of offset mappings cannot lie in an object store ({path}): let index.path name a folder that "
            "drivers, executors and the sensors see. State files may stay where K2K_HOME says"
        )
    return path.local
