"""Runs in progress, and the last run."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import dagster as dg
import pytest
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin

from k2k_assets.orchestration.sensors.next_run_decision import START_SECONDS
from k2k_assets.orchestration.sensors.run_history import last_run, running, started
from k2k_assets_tests.support.memory.clock import FakeClock

TAGS = {"k2k/pipeline": "p"}
BEFORE_BEGIN = [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.CANCELING]


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


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.NOT_STARTED, *BEFORE_BEGIN])
def test_a_run_that_never_begins_does_not_hold_up_the_next_one_for_ever(status: dg.DagsterRunStatus) -> None:
    """It was killed before it began, or who was to launch it was. Dagster's run monitoring is off by default."""
    clock = FakeClock(time.time())
    with dg.DagsterInstance.ephemeral() as instance:
        run = instance.create_run_for_job(nothing, tags=TAGS, status=status)
        assert running(instance, TAGS, [], clock) == run.run_id
        assert started(instance, TAGS, clock.time()) == (set(), set())
        clock.advance(START_SECONDS + 60)  # so that a busy machine may create the run late
        assert running(instance, TAGS, [], clock) is None
        assert started(instance, TAGS, clock.time()) == (set(), {run.run_id})


def test_a_run_waits_in_dagster_s_queue_as_long_as_it_takes() -> None:
    clock = FakeClock(time.time())
    with dg.DagsterInstance.ephemeral() as instance:
        repository = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("here"), "all")
        origin = RemoteJobOrigin(repository, nothing.name)  # without one Dagster queues nothing
        queued = dg.DagsterRunStatus.QUEUED
        run = instance.create_run_for_job(nothing, tags=TAGS, status=queued, remote_job_origin=origin)
        clock.advance(86_400.0)
        assert running(instance, TAGS, [], clock) == run.run_id
        assert started(instance, TAGS, clock.time()) == (set(), set())


def test_a_run_that_has_begun_is_no_run_that_never_began() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        run = instance.create_run_for_job(nothing, tags=TAGS)
        begun = time.time() - START_SECONDS - 1
        _started(instance, run, begun)
        assert started(instance, TAGS, time.time()) == ({run.run_id}, set())


def test_failures_are_counted_up_to_the_newest_run() -> None:
    status = dg.DagsterRunStatus
    with dg.DagsterInstance.ephemeral() as instance:
        assert last_run(instance, TAGS).failures == 0
        for ended, failures in (
            (status.FAILURE, 1), (status.FAILURE, 2), (status.SUCCESS, 0), (status.FAILURE, 1), (status.CANCELED, 0),
        ):  # fmt: skip
            instance.create_run_for_job(nothing, tags=TAGS, status=ended)
            assert last_run(instance, TAGS).failures == failures
        instance.create_run_for_job(nothing, tags=TAGS, status=status.FAILURE)
        dead = instance.create_run_for_job(nothing, tags=TAGS, status=status.STARTED).run_id
        assert last_run(instance, TAGS).failures == 0
        assert last_run(instance, TAGS, {dead}).failures == 2, "Dagster does not know of its death"


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
