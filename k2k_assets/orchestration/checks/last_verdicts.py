"""Reads the last verdicts of the blocking checks on the offset mappings from Dagster's instance.

A blocking check only stops its own run. Another run that moves groups asks here at each poll.
"""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord

from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.verification.mapping_checks import CHECKS

# Most runs of one check in which a verdict is searched: runs in progress have none yet.
_VERDICTS_LOOKED_AT = 10


def why_unproven(instance: dg.DagsterInstance, names: AssetNames, mappings: str) -> str:
    """Why the groups of a pipeline are held back, and what to do; empty if all checks passed.

    Args:
        instance: Dagster's instance.
        names: The pipeline's names.
        mappings: Identity of the present mappings, from `mappings_of`.
    """
    checks = [dg.AssetCheckKey(names.offset_mappings_key, check) for check in CHECKS]
    advice = f"Each run of {names.mappings_job} checks them, which the replication sensor requests"
    try:
        failed = failed_checks(instance, checks, mappings)
    except Exception as error:  # any error of the instance's storage; an unreadable verdict counts as none
        return f"Dagster cannot read the last verdicts of the checks on the offset mappings ({type(error).__name__})"
    if failed is None:
        return (
            f"the offset mappings are not checked: a check has not run yet, ended without a verdict, "
            f"or was about other clusters or another group. {advice}"
        )
    return f"the offset mappings failed their checks ({', '.join(failed)}). {advice}" if failed else ""


def failed_checks(instance: dg.DagsterInstance, checks: Sequence[dg.AssetCheckKey], mappings: str) -> list[str] | None:
    """Names of the checks whose last verdict is a failure.

    Args:
        instance: Dagster's instance.
        checks: The checks.
        mappings: Identity of the mappings that the verdicts must be about.

    Returns:
        None if a check has never given a verdict, or its last run ended without one because it crashed or another
        check had failed, or if the verdict is about other mappings.
    """
    latest = instance.event_log_storage.get_latest_asset_check_execution_by_key(checks)
    failed = []
    for key in checks:
        verdict = _verdict_of(latest[key]) or _verdict_before(instance, key) if key in latest else None
        if verdict is None or verdict.metadata.get(keys.MAPPINGS) != dg.MetadataValue.text(mappings):
            return None
        if not verdict.passed and verdict.severity is dg.AssetCheckSeverity.ERROR:
            failed.append(key.name)
    return failed


def _verdict_before(instance: dg.DagsterInstance, key: dg.AssetCheckKey) -> dg.AssetCheckEvaluation | None:
    """The last verdict of a check whose newest runs have given none; None unless all of these are in progress."""
    is_over: dict[str, bool] = {}

    def verdict() -> dg.AssetCheckEvaluation | None:
        for record in instance.event_log_storage.get_asset_check_execution_history(key, limit=_VERDICTS_LOOKED_AT):
            if (found := _verdict_of(record)) is not None:
                return found
            if is_over.setdefault(record.run_id, _is_over(instance, record.run_id)):
                return None
        return None

    # A run that ends between the two queries may have given its verdict after the first one.
    return verdict() or (verdict() if any(is_over.values()) else None)


def _verdict_of(record: AssetCheckExecutionRecord) -> dg.AssetCheckEvaluation | None:
    """The verdict in a record; None if the check has not ended."""
    return record.evaluation if isinstance(record.evaluation, dg.AssetCheckEvaluation) else None


def _is_over(instance: dg.DagsterInstance, run_id: str) -> bool:
    run = instance.get_run_by_id(run_id)
    return run is None or run.is_finished
