"""The last verdicts of the checks on the offset mappings: good, bad, or none."""

from __future__ import annotations

import dagster as dg
import pytest
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationPlanned
from dagster._core.events import DagsterEventType

from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.checks.asset_checks import mappings_of
from k2k_assets.orchestration.checks.last_verdicts import failed_checks, why_unproven
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.verification.mapping_checks import CHECKS

MAPPINGS = mappings_of("g", "source", "target", "mappings")
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
        return dg.AssetCheckResult(passed=outcome, metadata={keys.MAPPINGS: MAPPINGS})

    job = dg.define_asset_job("checking", selection=dg.AssetSelection.all()).resolve(
        asset_graph=dg.Definitions(assets=[mappings], asset_checks=[content]).resolve_asset_graph()
    )
    job.execute_in_process(instance=instance, raise_on_error=False)


def test_a_check_that_crashed_has_no_verdict_until_it_gives_one_again() -> None:
    """Its last good one says nothing of the mappings as they are now."""
    with dg.DagsterInstance.ephemeral() as instance:
        assert failed_checks(instance, [CHECK], MAPPINGS) is None, "it never ran"
        _checked(instance, True)
        assert failed_checks(instance, [CHECK], MAPPINGS) == []
        _checked(instance, RuntimeError("the cluster went away"))
        assert failed_checks(instance, [CHECK], MAPPINGS) is None
        _checked(instance, False)
        assert failed_checks(instance, [CHECK], MAPPINGS) == ["content"]
        _checked(instance, True)
        assert failed_checks(instance, [CHECK], MAPPINGS) == []


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
        assert failed_checks(instance, [CHECK], MAPPINGS) == []
        instance.report_run_failed(run)
        assert failed_checks(instance, [CHECK], MAPPINGS) is None


def test_what_stands_against_moving_groups_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    names = AssetNames("p")
    with dg.DagsterInstance.ephemeral() as instance:
        assert why_unproven(instance, names, MAPPINGS).startswith("the offset mappings are not checked: ")
        for check in CHECKS:
            _judge(instance, names, check, passed=True)
        assert why_unproven(instance, names, MAPPINGS) == ""
        _judge(instance, names, "content", passed=False, severity=dg.AssetCheckSeverity.WARN)
        assert why_unproven(instance, names, MAPPINGS) == "", "a doubt blocks nothing"
        _judge(instance, names, "coverage", passed=False)
        told = why_unproven(instance, names, MAPPINGS)
        assert told.startswith("the offset mappings failed their checks (coverage). ")
        assert names.mappings_job in told

        def locked(*_: object) -> None:
            raise OSError("the database is locked")

        monkeypatch.setattr(instance.event_log_storage, "get_latest_asset_check_execution_by_key", locked)
        assert why_unproven(instance, names, MAPPINGS), "a verdict that cannot be read is none"


@pytest.mark.parametrize(
    "others",
    [
        mappings_of("g", "source", "a new target", "mappings"),
        mappings_of("g", "another source", "target", "mappings"),
        mappings_of("another group", "source", "target", "mappings"),
        mappings_of("g", "source", "target", "other mappings"),
        None,
    ],
)
def test_a_verdict_on_other_mappings_is_none(others: str | None) -> None:
    """The pipeline file names other clusters since, or another group; or an earlier release did not note it."""
    names = AssetNames("p")
    with dg.DagsterInstance.ephemeral() as instance:
        for check in CHECKS:
            _judge(instance, names, check, passed=True)
        assert why_unproven(instance, names, MAPPINGS) == ""
        _judge(instance, names, "content", passed=True, mappings=others)
        assert "about other clusters or another group" in why_unproven(instance, names, MAPPINGS)


def _judge(
    instance: dg.DagsterInstance,
    names: AssetNames,
    check: str,
    *,
    passed: bool,
    mappings: str | None = MAPPINGS,
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR,
) -> None:
    metadata = {} if mappings is None else {keys.MAPPINGS: dg.MetadataValue.text(mappings)}
    evaluation = dg.AssetCheckEvaluation(names.offset_mappings_key, check, passed, metadata, severity=severity)
    instance.report_runless_asset_event(evaluation)
