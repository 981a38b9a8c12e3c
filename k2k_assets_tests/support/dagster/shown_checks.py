"""What Dagster's UI shows of a check."""

from __future__ import annotations

import asyncio

import dagster as dg
from dagster._core.loader import LoadingContextForTest

from k2k_assets.verification.verdict import Judgement


def shown_judgement(instance: dg.DagsterInstance, check: dg.AssetCheckKey) -> Judgement | None:
    """Whether a check has passed; None where the UI says that it was not evaluated.

    Args:
        instance: Dagster's.
        check: It has been evaluated.
    """
    record = instance.event_log_storage.get_latest_asset_check_execution_by_key([check])[check]
    if not asyncio.run(record.targets_latest_materialization(LoadingContextForTest(instance))):
        return None
    assert isinstance(record.evaluation, dg.AssetCheckEvaluation)
    return Judgement.PASSED if record.evaluation.passed else Judgement.FAILED
