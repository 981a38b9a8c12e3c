"""Runs in progress, and the last run."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import dagster as dg

from k2k_assets.orchestration.sensors.run_history import running

TAGS = {"k2k/pipeline": "p"}


@dg.job
def nothing() -> None:
    """Is never run."""


def test_a_run_whose_process_is_gone_does_not_hold_up_the_next_one_for_ever() -> None:
    """Its record stays in progress: the mappings would never be brought up to date again, nor checked."""
    with dg.DagsterInstance.ephemeral() as instance:
        assert running(instance, TAGS, []) is None
        run = instance.create_run_for_job(nothing, tags=TAGS)
        assert running(instance, TAGS, []) == run.run_id
        for hours, found in ((1, run.run_id), (7, None)):
            _started(instance, run, time.time() - hours * 3600)
            assert running(instance, TAGS, []) == found


def test_among_the_runs_of_two_dozen_pipelines_each_finds_its_own() -> None:
    """Each has four runs that stay: more than are searched for a run without tags."""
    with dg.DagsterInstance.ephemeral() as instance:
        pipelines = [f"p{n}" for n in range(24)]
        own = {name: instance.create_run_for_job(nothing, tags={"k2k/mappings": name}).run_id for name in pipelines}
        for name in pipelines:
            for tag in ("k2k/sync", "k2k/offset_sync", "k2k/pipeline"):
                instance.create_run_for_job(nothing, tags={tag: name})
        assert {name: running(instance, {"k2k/mappings": name}, []) for name in pipelines} == own
        assert running(instance, {"k2k/mappings": "p24"}, []) is None
        assert running(instance, {"k2k/mappings": "p0"}, [], dead={own["p0"]}) is None


def test_a_run_of_the_asset_graph_is_found_by_its_assets() -> None:
    mappings = dg.AssetKey("offset_mappings")
    asset = dg.asset(key=mappings)(lambda: None)
    job = dg.Definitions(assets=[asset]).resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance:
        run = instance.create_run_for_job(job, asset_selection=frozenset([mappings]))
        assert running(instance, TAGS, [mappings]) == run.run_id
        assert running(instance, TAGS, [dg.AssetKey("other")]) is None


def _started(instance: dg.DagsterInstance, run: dg.DagsterRun, when: float) -> None:
    event = dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, run.job_name)
    instance.run_storage.handle_run_event(run.run_id, event, datetime.fromtimestamp(when, UTC))
