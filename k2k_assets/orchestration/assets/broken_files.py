"""A pipeline file that cannot be used, as an asset: seen in the UI, and told why when it is materialized.

So one broken file takes no other pipeline down, and nobody has to look for the reason in a log.
"""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from k2k_assets.orchestration.names import BROKEN_FILES_GROUP, broken_file_key, broken_file_op


def broken_file_asset(path: Path, reason: str) -> dg.AssetsDefinition:
    """The asset that stands for the file.

    Args:
        path: The file.
        reason: What is wrong with it, all of it.
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
