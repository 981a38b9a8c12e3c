"""Deleted history on SQLite and PostgreSQL, which changes nothing that Dagster shows."""

from __future__ import annotations

import time
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationPlanned
from dagster._core.storage.compute_log_manager import ComputeIOType
from dagster._core.storage.event_log import SqliteEventLogStorage

from k2k_assets.core.errors import Refused
from k2k_assets.orchestration.maintenance import history as deleting
from k2k_assets.orchestration.maintenance.history import delete_history
from k2k_assets.orchestration.maintenance.keeping import Ours
from k2k_assets.orchestration.names import GROUP_CHECK, MAINTENANCE_TAGS, AssetNames
from k2k_assets.orchestration.sensors import sync_history
from k2k_assets_tests.support.dagster.history import History

pytestmark = pytest.mark.slow

LOOKED_AT = 3


@pytest.fixture(autouse=True)
def _few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sensors look at fewer than in truth: each run of a test takes its time."""
    for module in (deleting, sync_history):
        monkeypatch.setattr(module, "RUNS_LOOKED_AT", LOOKED_AT)


def _long(history: History) -> list[str]:
    """Topics that move and rest, checks that passed and failed, in more runs than anybody looks at; their ids."""
    first = history.sync(("a.b", 5, 5), ("quiet", 3, 3))
    checked = history.check_mappings(passed=True), history.check_mappings(passed=False)
    moved = [history.sync(("a.b", 10 * n, 10 * n + n % 2)) for n in range(1, LOOKED_AT + 3)]
    history.report("a.b", 990, 1000)
    history.report("a.b", 1000, 1000)
    return [first, *checked, *moved]


def test_nothing_that_is_shown_changes(history: History) -> None:
    first, passed, failed, *moved = _long(history)
    before = history.shown()
    assert before["synced"] == {"a.b": "FRESH", "quiet": "FRESH"}
    assert len(before["failed checks"]) == len(history.checks)
    assert {evaluation.passed for _, evaluation in before["latest checks"].values()} == {False}
    deleted = delete_history(history.instance, history.ours, time.time())
    assert history.shown() == before
    assert history.runs() == {first, passed, failed, *moved[-LOOKED_AT:]}, (
        "the first one made what is shown of the quiet topic, and sensors look at the others"
    )
    assert deleted.runs == 2
    # Each run and report has observed the source; the last report has the newest events.
    assert deleted.events == (len(moved) + 2) + 1 + 1
    assert history.reports(history.names.source_key("a.b")) == 1

    assert delete_history(history.instance, history.ours, time.time()) == (0, 0)
    assert history.shown() == before


def test_history_goes_on_after_it(history: History) -> None:
    """By Dagster's own status: a copy that was synced is not, and is again."""
    _long(history)
    delete_history(history.instance, history.ours, time.time())
    history.sync(("a.b", 1000, 1001))
    assert history.synced() == {"a.b": "STALE", "quiet": "FRESH"}
    delete_history(history.instance, history.ours, time.time())
    assert history.synced() == {"a.b": "STALE", "quiet": "FRESH"}
    history.sync(("a.b", 1001, 1001))
    delete_history(history.instance, history.ours, time.time())
    assert history.synced() == {"a.b": "FRESH", "quiet": "FRESH"}
    history.check_mappings(passed=True)
    delete_history(history.instance, history.ours, time.time())
    assert history.shown()["failed checks"] == []


def test_what_is_young_stays(history: History) -> None:
    before = time.time()
    runs = _long(history)
    assert delete_history(history.instance, history.ours, before) == (0, 0)
    assert history.runs() == set(runs)
    assert history.reports(history.names.source_key("a.b")) == len(runs)


def test_a_run_in_progress_and_what_is_others_stay(history: History) -> None:
    @dg.asset
    def theirs() -> None: ...

    @dg.asset(key=history.names.commit_log_key)
    def of_both() -> None: ...

    mixed = dg.Definitions(assets=[theirs, of_both]).resolve_implicit_global_asset_job_def()
    stay = {
        history.sync(("a.b", 1, 1), tags={}),
        history.sync(("a.b", 2, 2), tags=AssetNames("another").sync_tags),
        mixed.execute_in_process(instance=history.instance, asset_selection=[theirs.key, of_both.key]).run_id,
        mixed.execute_in_process(instance=history.instance, asset_selection=[theirs.key]).run_id,
    }
    history.instance.report_runless_asset_event(dg.AssetObservation("theirs"))
    history.instance.report_runless_asset_event(dg.AssetObservation("theirs"))
    runs = [history.sync(("a.b", n, n)) for n in range(LOOKED_AT + 2)]
    copying = history.begin(history.names.sync_tags)
    history.instance.report_engine_event("copying", copying)
    for _ in range(LOOKED_AT):
        history.sync()
    last = history.sync(("a.b", 9, 9))
    delete_history(history.instance, history.ours, time.time())
    left = history.runs()
    assert left >= {*stay, copying.run_id, last}
    assert not left & set(runs)
    for run_id in stay:
        assert history.instance.all_logs(run_id), "with all their events"
    assert len(history.instance.all_logs(copying.run_id)) == 1
    assert history.reports(dg.AssetKey("theirs")) == 4


def test_clicks_in_the_asset_graph_and_maintenance_itself_are_ours(history: History) -> None:
    click = history.check_mappings(passed=False, graph=True)
    maintenance = history.sync(tags=MAINTENANCE_TAGS)
    delete_history(history.instance, history.ours, time.time())
    assert history.runs() == {click}, "it is the newest of its asset"
    newer = history.check_mappings(passed=True)
    delete_history(history.instance, history.ours, time.time())
    assert history.runs() == {newer}
    assert maintenance not in history.runs()
    assert history.shown()["failed checks"] == []


def test_a_run_that_was_terminated_keeps_the_sensor_from_the_next_one(history: History) -> None:
    for n in range(LOOKED_AT + 2):
        history.sync(("a.b", n, n))
    waiting = history.begin(history.names.sync_tags)
    history.instance.report_run_canceled(waiting)
    delete_history(history.instance, history.ours, time.time())
    (active, ended) = history.shown()["sync runs"]
    assert (active, ended[0].run_id, ended[0].how) == ([], waiting.run_id, "canceled")


def test_the_last_run_of_an_asset_stays_where_it_failed(history: History) -> None:
    """A check that crashed has given no verdict, and an asset is shown with its failed run."""
    history.check_mappings(passed=True)
    crashed = history.begin(history.names.mappings_tags)
    for check in history.checks:
        planned = AssetCheckEvaluationPlanned(asset_key=check.asset_key, check_name=check.name)
        event = dg.DagsterEvent("ASSET_CHECK_EVALUATION_PLANNED", crashed.job_name, event_specific_data=planned)
        history.instance.report_dagster_event(event, crashed.run_id)
    history.instance.report_run_failed(crashed)
    for _ in range(LOOKED_AT):
        history.sync(tags=history.names.mappings_tags)
    before = history.shown()
    assert before["failed checks"] is None
    delete_history(history.instance, history.ours, time.time())
    assert history.shown() == before
    assert crashed.run_id in history.runs()


def test_reports_of_a_sensor_leave_the_newest_of_each_kind(history: History) -> None:
    for n in range(8):
        history.report("a.b", n, 100)
    shown = history.shown()
    deleted = delete_history(history.instance, history.ours, time.time())
    assert deleted == (0, 3 * 7)
    assert history.shown() == shown
    executions = history.instance.event_log_storage.get_asset_check_execution_history(history.topic_check, limit=100)
    assert len(executions) == 1


def test_groups_that_are_gone_keep_no_runs(history: History) -> None:
    """Each start of some programs makes a group, which was an asset as long as it was there."""
    shown, gone = history.names.consumer_group_key("shown"), history.names.consumer_group_key("gone-0")
    stays = history.move("shown")
    for n in range(LOOKED_AT + 2):
        history.move(f"gone-{n}")
    newest = {history.move("shown") for _ in range(LOOKED_AT)}
    topic = history.sync(("quiet", 3, 3))
    ours = Ours([history.names], [shown])
    before = time.time()
    delete_history(history.instance, ours, before - 3600)
    assert stays in history.runs(), "what is young stays"
    delete_history(history.instance, ours, before)
    assert history.runs() == {*newest, topic}, "sensors look at these, and a topic that is gone is on the target"
    known = history.instance.all_asset_keys()
    assert shown in known
    assert gone not in known
    record = history.instance.event_log_storage.get_asset_check_execution_history(
        dg.AssetCheckKey(gone, GROUP_CHECK), limit=10
    )
    assert list(record) == []
    history.move("gone-0")
    assert gone in history.instance.all_asset_keys(), "it came back"


def test_files_of_a_deleted_run_are_gone(history: History) -> None:
    runs = [history.sync(("a.b", n, n)) for n in range(LOOKED_AT + 1)]
    logs = history.instance.compute_log_manager
    for run_id in (runs[0], runs[-1]):
        with logs.open_log_stream([run_id, "compute_logs", "step"], ComputeIOType.STDERR) as stream:
            assert stream is not None
            stream.write("said")  # type: ignore[call-overload]  # it is one of text
    history.sync(("a.b", 99, 99))
    delete_history(history.instance, history.ours, time.time())
    kept = [logs.get_log_data([run_id, "compute_logs", "step"]).stderr for run_id in (runs[0], runs[-1])]
    assert kept == [None, b"said"]
    storage = history.instance.event_log_storage
    if isinstance(storage, SqliteEventLogStorage):
        assert not list(Path(storage.path_for_shard(runs[0])).parent.glob(f"{runs[0]}*"))


def test_a_database_that_is_kept_up_does_not_grow(history: History) -> None:
    """What is deleted makes room for what comes: the files need no VACUUM."""
    storage = history.instance.event_log_storage
    if not isinstance(storage, SqliteEventLogStorage):
        pytest.skip("PostgreSQL's autovacuum makes the room when it comes by")
    files = [Path(storage.path_for_shard(shard)) for shard in ("index", "")]
    sizes = []
    for round_number in range(3):
        for n in range(15):
            history.report("a.b", 15 * round_number + n, 1000)
        delete_history(history.instance, history.ours, time.time())
        sizes.append(sum(file.stat().st_size for file in files))
    assert sizes[2] <= sizes[1] + 3 * 4096, sizes


def test_a_storage_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = dg.DagsterInstance.ephemeral()
    monkeypatch.setattr(instance, "_event_storage", object())
    with pytest.raises(Refused, match="neither SQLite nor PostgreSQL"):
        delete_history(instance, Ours([]), time.time())
