"""What the blocking checks on the offset mappings said last, as Dagster's instance knows it.

A blocking check holds back its own run. Whoever moves groups in another one asks here, at each poll.
"""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord

from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.verification.mapping_checks import CHECKS

# Runs of one check that are looked through for a verdict: those in progress have none yet.
_VERDICTS_LOOKED_AT = 10


def why_unproven(instance: dg.DagsterInstance, names: AssetNames, mappings: str) -> str:
    """Why no group may be moved by the offset mappings of a pipeline, and what to do; empty if all checks passed.

    Args:
        instance: Dagster's.
        names: The pipeline's names.
        mappings: Whose they are, as `mappings_of` says it of the clusters that are there.
    """
    checks = [dg.AssetCheckKey(names.offset_mappings_key, check) for check in CHECKS]
    advice = f"They are checked with each run of {names.mappings_job}, which the replication sensor asks for"
    try:
        failed = failed_checks(instance, checks, mappings)
    except Exception as error:  # of whatever storage the instance has; a verdict that cannot be read is none
        return f"Dagster does not tell what the checks on the offset mappings said last ({type(error).__name__})"
    if failed is None:
        return (
            f"the offset mappings are not checked: a check has not run yet, ended without a verdict, "
            f"or has judged those of other clusters or of another group. {advice}"
        )
    return f"the offset mappings failed their checks ({', '.join(failed)}). {advice}" if failed else ""


def failed_checks(instance: dg.DagsterInstance, checks: Sequence[dg.AssetCheckKey], mappings: str) -> list[str] | None:
    """Names of the checks whose last verdict is a failure.

    Args:
        instance: Dagster's.
        checks: Which.
        mappings: Whose mappings they are to be about.

    Returns:
        None if one of them never gave a verdict, or ended without one the last time: it crashed, or was not run because
        another one had failed. Also if it is about others' mappings.
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
    """The last verdict of a check of which the newest runs have given none: there is one if they are all under way."""
    is_over: dict[str, bool] = {}

    def verdict() -> dg.AssetCheckEvaluation | None:
        for record in instance.event_log_storage.get_asset_check_execution_history(key, limit=_VERDICTS_LOOKED_AT):
            if (found := _verdict_of(record)) is not None:
                return found
            if is_over.setdefault(record.run_id, _is_over(instance, record.run_id)):
                return None
        return None

    # A run that ends between the two looks may have given its verdict after the first one.
    return verdict() or (verdict() if any(is_over.values()) else None)


def _verdict_of(record: AssetCheckExecutionRecord) -> dg.AssetCheckEvaluation | None:
    """None where the check was planned and has not ended."""
    return record.evaluation if isinstance(record.evaluation, dg.AssetCheckEvaluation) else None


def _is_over(instance: dg.DagsterInstance, run_id: str) -> bool:
    run = instance.get_run_by_id(run_id)
    return run is None or run.is_finished
