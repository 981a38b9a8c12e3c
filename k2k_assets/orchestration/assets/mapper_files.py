"""A file for the offset mapper alone, as an asset: seen in the UI, with what runs it.

K2K has such files for `k2k-offset-mapping`. They copy nothing, and name no pipeline whose groups Dagster would move.
"""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from k2k_assets.orchestration.names import MAPPER_FILES_GROUP, mapper_file_key


def mapper_file_asset(path: Path, name: str) -> dg.AssetSpec:
    """The asset that stands for the file; it is not materialized here.

    Args:
        path: The file, which can be used.
        name: Of the mapper.
    """
    return dg.AssetSpec(
        key=mapper_file_key(path.name),
        group_name=MAPPER_FILES_GROUP,
        description=f"'{name}': a file for the offset mapper alone. It can be used; `k2k-offset-mapping start -f "
        f"{path.name}` runs it. Dagster moves the groups of a pipeline by the pipeline's own file.",
    )
