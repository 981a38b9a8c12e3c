"""The folder of what k2k remembers on this machine: discovery state files, mapping indexes, turns of checks.

Nothing here is needed for exactly-once copying (that state is on the target cluster); all of it can be deleted
and is built again.
"""

from __future__ import annotations

import os
from pathlib import Path

from k2k_assets.core.errors import K2KError
from k2k_assets.core.naming import escape

HOME_VARIABLE = "K2K_HOME"


def expanded(path: str, setting: str) -> Path:
    """A path, with `~` as the home directory.

    Args:
        path: The configured path, or a default.
        setting: The setting that can name another path, for the error.

    Raises:
        K2KError: The user has no home directory, as in a container under any uid.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise K2KError(
            f"{path}: the home directory is not known ({error}). Set {setting} to an absolute path that can be "
            "written, or set HOME."
        ) from None


def home() -> Path:
    """The state directory: `K2K_HOME`, or `~/.k2k`.

    Raises:
        K2KError: The user has no home directory.
    """
    return expanded(os.environ.get(HOME_VARIABLE) or "~/.k2k", HOME_VARIABLE).absolute()


def discovery_file(pipeline_name: str) -> Path:
    """The discovery state file of a pipeline.

    Raises:
        K2KError: The user has no home directory.
    """
    return home() / "discovery" / f"{escape(pipeline_name)}.json"


def turn_file(pipeline_name: str) -> Path:
    """The file with the turn of a pipeline's checks (`verification/turns.py`).

    Raises:
        K2KError: The user has no home directory.
    """
    return home() / "checks" / f"{escape(pipeline_name)}.json"


def index_directory(pipeline_name: str, configured: str | None = None) -> Path:
    """The directory of a pipeline's mapping index.

    Args:
        pipeline_name: The pipeline's `name`.
        configured: `index.path` of the pipeline file; wins over the default.

    Raises:
        K2KError: The user has no home directory.
    """
    if configured:
        return expanded(configured, "index.path").absolute()
    return home() / "index" / escape(pipeline_name)
