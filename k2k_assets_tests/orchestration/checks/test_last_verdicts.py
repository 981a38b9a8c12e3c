"""What the checks on the offset mappings said last: a good verdict, a bad one, or none."""

from __future__ import annotations

import dagster as dg
import pytest
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationPlanned
from dagster._core.events import DagsterEventType

from k2k_assets.orchestration.checks.last_verdicts import failed_checks, why_unproven
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.verification.mapping_checks import CHECKS

CHECK = dg.AssetCheckKey(dg.AssetKey("mappings"), "content")


@dg.asset
def mappings() -> None:
    """Stands for the offset mappings."""


def _checked(instance: dg.DagsterInstance, outcome: bool | Exception) -> None:
    """One run of the check: with a verdict, or with none."""

    @dg.asset_check(asset=mappings, name="content", blocking=True)
    def content() -> dg.AssetCheckResult:
        if isinstance(outcome, Exception):
            raise outcome
        return dg.AssetCheckResult(passed=outcome)

    job = dg.define_asset_job("checking", selection=dg.AssetSelection.all()).resolve(
        asset_graph=dg.Definitions(assets=[mappings], asset_checks=[content]).resolve_asset_graph()
    )
    job.execute_in_process(instance=instance, raise_on_error=False)


def test_a_check_that_crashed_has_no_verdict_until_it_gives_one_again() -> None:
    """Its last good one says nothing of the mappings as they are now."""
    with dg.DagsterInstance.ephemeral() as instance:
        assert failed_checks(instance, [CHECK]) is None, "it never ran"
        _checked(instance, True)
        assert failed_checks(instance, [CHECK]) == []
        _checked(instance, RuntimeError("the cluster went away"))
        assert failed_checks(instance, [CHECK]) is None
        _checked(instance, False)
        assert failed_checks(instance, [CHECK]) == ["content"]
        _checked(instance, True)
        assert failed_checks(instance, [CHECK]) == []


@dg.job
def nothing() -> None:
    """Is never run."""


def test_a_check_that_is_under_way_leaves_the_verdict_before() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        _checked(instance, True)
        run = instance.create_run_for_job(nothing)
        planned = dg.DagsterEvent(
            DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED.value,
            job_name="nothing",
            event_specific_data=AssetCheckEvaluationPlanned(asset_key=CHECK.asset_key, check_name=CHECK.name),
        )
        instance.report_dagster_event(planned, run.run_id)
        assert failed_checks(instance, [CHECK]) == []
        instance.report_run_failed(run)
        assert failed_checks(instance, [CHECK]) is None


def test_what_stands_against_moving_groups_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    names = AssetNames("p")
    with dg.DagsterInstance.ephemeral() as instance:
        assert why_unproven(instance, names).startswith("the offset mappings are not checked: ")
        for check in CHECKS:
            _judge(instance, names, check, passed=True)
        assert why_unproven(instance, names) == ""
        _judge(instance, names, "content", passed=False, severity=dg.AssetCheckSeverity.WARN)
        assert why_unproven(instance, names) == "", "a doubt blocks nothing"
        _judge(instance, names, "coverage", passed=False)
        told = why_unproven(instance, names)
        assert told.startswith("the offset mappings failed their checks (coverage). ")
        assert names.mappings_job in told

        def locked(*_: object) -> None:
            raise OSError("the database is locked")

        monkeypatch.setattr(instance.event_log_storage, "get_latest_asset_check_execution_by_key", locked)
        assert why_unproven(instance, names), "a verdict that cannot be read is none"


def _judge(
    instance: dg.DagsterInstance,
    names: AssetNames,
    check: str,
    *,
    passed: bool,
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR,
) -> None:
    evaluation = dg.AssetCheckEvaluation(names.offset_mappings_key, check, passed, {}, severity=severity)
    instance.report_runless_asset_event(evaluation)
