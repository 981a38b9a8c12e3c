"""Where k2k keeps what it must remember on this machine: discovery state files and mapping indexes.

Nothing here is needed for exactly-once copying (that state is on the target cluster); all of it can be deleted
and is built again.
"""

from __future__ import annotations

import os
from pathlib import Path

from k2k_assets.naming import escape

HOME_VARIABLE = "K2K_HOME"


def home() -> Path:
    """The state directory: `K2K_HOME`, or `~/.k2k`."""
    return Path(os.environ.get(HOME_VARIABLE) or "~/.k2k").expanduser().absolute()


def discovery_file(pipeline_name: str) -> Path:
    """The discovery state file of a pipeline."""
    return home() / "discovery" / f"{escape(pipeline_name)}.json"


def index_directory(pipeline_name: str, configured: str | None = None) -> Path:
    """The directory of a pipeline's mapping index.

    Args:
        pipeline_name: The pipeline's `name`.
        configured: `index.path` of the pipeline file; wins over the default.
    """
    if configured:
        return Path(configured).expanduser().absolute()
    return home() / "index" / escape(pipeline_name)
