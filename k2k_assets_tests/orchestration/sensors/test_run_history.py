"""Which run is in progress, and what is said of it."""

from __future__ import annotations

import time

import dagster as dg
import pytest

from k2k_assets.orchestration.sensors.run_history import failed_checks, running

TAGS = {"k2k/pipeline": "p"}


@dg.job
def nothing() -> None:
    """Is never run."""


def test_a_run_that_may_be_dead_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its machine was lost: its record stays in progress for ever, and sensors would wait without a word."""
    with dg.DagsterInstance.ephemeral() as instance:
        assert running(instance, TAGS, [], besides={}) is None
        run = instance.create_run_for_job(nothing, tags=TAGS)
        assert running(instance, TAGS, [], besides={}) == run.run_id
        later = time.time() + 5 * 3600
        monkeypatch.setattr(time, "time", lambda: later)
        told = running(instance, TAGS, [], besides={})
    assert told
    assert told.startswith(f"{run.run_id} (since 5 h; if its process is gone, end it in Dagster's UI")


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


def test_a_check_that_is_under_way_leaves_the_verdict_before(monkeypatch: pytest.MonkeyPatch) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        _checked(instance, True)
        storage = instance.event_log_storage
        history = storage.get_asset_check_execution_history(CHECK, limit=1)
        run = instance.create_run_for_job(nothing)
        planned = history[0]._replace(run_id=run.run_id, event=None)
        monkeypatch.setattr(storage, "get_asset_check_execution_history", lambda *_, **__: [planned, *history])
        assert failed_checks(instance, [CHECK]) == []
        instance.report_run_failed(run)
        assert failed_checks(instance, [CHECK]) is None
