"""Shows a pipeline file that cannot be used as an asset; to materialize it shows the reason.

So a broken file does not stop other pipelines, and the reason is in the UI, not only in a log.
"""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from k2k_assets.orchestration.names import BROKEN_FILES_GROUP, broken_file_key, broken_file_op


def broken_file_asset(path: Path, reason: str) -> dg.AssetsDefinition:
    """The asset that stands for the file.

    Args:
        path: The file.
        reason: All faults of the file.
    """

    @dg.multi_asset(
        name=broken_file_op(path.name),
        outs={
            "broken": dg.AssetOut(
                key=broken_file_key(path.name),
                dagster_type=dg.Nothing,
                description=f"This pipeline file cannot be used.\n\n```\n{reason}\n```",
            )
        },
        group_name=BROKEN_FILES_GROUP,
    )
    def broken() -> None:
        raise dg.Failure(description=reason, allow_retries=False)

    return broken
