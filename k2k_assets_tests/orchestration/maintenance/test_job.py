"""The maintenance job in Dagster: how many days it keeps, and its schedule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from k2k_assets import build_k2k_assets, discovery
from k2k_assets.core.errors import InvalidVariable
from k2k_assets.definitions import build_definitions
from k2k_assets.orchestration.maintenance.keeping import DEFAULT_DAYS, KEEP_VARIABLE, keep_days
from k2k_assets.orchestration.names import COMMON_MAINTENANCE
from k2k_assets.orchestration.sensors.replication_sensor import SENSORS_VARIABLE
from k2k_assets_tests.support.dagster.fixture import failure_of
from k2k_assets_tests.support.dagster.history import History

_MOMENT = 1e-9


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    monkeypatch.setenv("K2K_HOME", str(tmp_path / "home"))
    return History(dg.DagsterInstance.ephemeral(), tmp_path / "pipelines")


def _maintain(history: History, **config: float) -> dg.ExecuteInProcessResult:
    job = build_definitions(history.folder).resolve_job_def(COMMON_MAINTENANCE.job)
    run_config = {"ops": {COMMON_MAINTENANCE.op: {"config": config}}}
    return job.execute_in_process(instance=history.instance, run_config=run_config, raise_on_error=False)


def test_a_pipeline_in_a_project_has_its_own(history: History) -> None:
    for n in range(3):
        history.report("a.b", n, 9)
    (file,) = history.folder.iterdir()
    maintenance = history.names.maintenance
    job = build_k2k_assets(file).resolve_job_def(maintenance.job)
    run_config = {"ops": {maintenance.op: {"config": {"keep_days": _MOMENT}}}}
    assert job.execute_in_process(instance=history.instance, run_config=run_config).success
    assert history.reports(history.names.topic_key("a.b")) == 1


def test_groups_that_the_definitions_show_keep_their_newest_records(history: History) -> None:
    known = discovery.load(history.pipeline.name)
    assert known is not None
    discovery.save(replace(known, groups=("shown",)))
    shown, gone = (history.names.consumer_group_key(group) for group in ("shown", "gone"))
    for key in (shown, gone, shown, gone):
        history.instance.report_runless_asset_event(dg.AssetMaterialization(key))
    _maintain(history, keep_days=_MOMENT)
    assert (history.reports(shown), history.reports(gone)) == (1, 0)


def _said(history: History, result: dg.ExecuteInProcessResult) -> str:
    return " ".join(entry.user_message for entry in history.instance.all_logs(result.run_id))


def test_it_deletes_what_is_older_than_it_is_told(history: History) -> None:
    for n in range(3):
        history.report("a.b", n, 9)
    young = _maintain(history)
    assert "older than 7 days: deleted 0 runs, and 0 events" in _said(history, young)
    old = _maintain(history, keep_days=_MOMENT)
    assert "deleted 1 run, and 6 events without a run" in _said(history, old)
    assert young.run_id not in history.runs(), "its own runs are history too"
    assert history.reports(history.names.topic_key("a.b")) == 1


def test_the_environment_says_how_long(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    assert keep_days() == DEFAULT_DAYS
    monkeypatch.setenv(KEEP_VARIABLE, f" {_MOMENT} ")
    history.report("a.b", 1, 9)
    history.report("a.b", 2, 9)
    assert "deleted 0 runs, and 3 events" in _said(history, _maintain(history))
    assert "older than 30 days: deleted 0 runs" in _said(history, _maintain(history, keep_days=30))


@pytest.mark.parametrize("said", ["0", "-1", "a week", "nan", "inf"])
def test_what_is_no_number_of_days_is_refused(said: str, history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEEP_VARIABLE, said)
    with pytest.raises(InvalidVariable, match=rf"{KEEP_VARIABLE}='{said}' is not a number of days above 0"):
        keep_days()
    assert "To keep everything, switch the schedule off" in failure_of(_maintain(history))


@pytest.mark.parametrize(("said", "running"), [("running", True), ("", False)])
def test_its_schedule_runs_where_sensors_do(
    said: str, running: bool, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SENSORS_VARIABLE, said)
    (schedule,) = build_definitions(history.folder).get_repository_def().schedule_defs
    assert schedule.name == COMMON_MAINTENANCE.schedule
    assert (schedule.default_status is dg.DefaultScheduleStatus.RUNNING) == running


def test_a_folder_without_pipelines_has_none(tmp_path: Path) -> None:
    tmp_path.joinpath("broken.yaml").write_text("name: [\n")
    assert not build_definitions(tmp_path).get_repository_def().schedule_defs
