"""Where k2k keeps what it must remember: discovery state files, mapping indexes, turns of checks.

Nothing here is needed for exactly-once copying (that state is on the target cluster); all of it can be deleted
and is built again. All of it may lie in an object store.
"""

from __future__ import annotations

import os
from pathlib import Path

from k2k_assets.core.naming import escape
from k2k_assets.core.state_path import StatePath, expanded

HOME_VARIABLE = "K2K_HOME"
CACHE_VARIABLE = "K2K_CACHE"


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
    """The file with the turn of a pipeline's checks (`verification.groups.turns`); raises as `home` does."""
    return home() / "checks" / f"{escape(pipeline_name)}.json"


def cache_directory() -> Path:
    """What this machine can fetch again: `K2K_CACHE`, or `k2k-assets` below `XDG_CACHE_HOME` or `~/.cache`.

    Raises:
        K2KError: The user has no home directory.
    """
    own = os.environ.get(CACHE_VARIABLE)
    if own:
        return expanded(own, CACHE_VARIABLE)
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else expanded("~/.cache", CACHE_VARIABLE)) / "k2k-assets"


def index_directory(pipeline_name: str, configured: str | None = None) -> StatePath:
    """The directory of a pipeline's mapping index, with the tables beside it.

    Args:
        pipeline_name: The pipeline's `name`.
        configured: `index.path` of the pipeline file; wins over the default.

    Raises:
        K2KError: The user has no home directory.
        Refused: It is an address of something that is no object store.
    """
    return StatePath.of(configured, "index.path") if configured else home() / "index" / escape(pipeline_name)
