"""Shows a file that is only for the offset mapper as an asset, with the command that runs it.

K2K has such files for `k2k-offset-mapping`. They copy nothing, and Dagster moves no groups by them.
"""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from k2k_assets.orchestration.names import MAPPER_FILES_GROUP, mapper_file_key


def mapper_file_asset(path: Path, name: str) -> dg.AssetSpec:
    """The asset for the file; it cannot be materialized.

    Args:
        path: The file, which must be valid.
        name: Name of the mapper.
    """
    return dg.AssetSpec(
        key=mapper_file_key(path.name),
        group_name=MAPPER_FILES_GROUP,
        description=f"'{name}': a valid file, only for the offset mapper. `k2k-offset-mapping start -f "
        f"{path.name}` runs it. Dagster uses a pipeline's own file to move its groups.",
    )
