"""Our settings of Dagster: it accepts them, and its own retries never compete with a sensor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._core.execution.retries import auto_reexecution_should_retry_run
from dagster._core.run_coordinator import QueuedRunCoordinator
from dagster._core.scheduler.instigation import InstigatorType, TickStatus

from k2k_assets.definitions import build_definitions
from k2k_assets.orchestration.sensors.next_run_decision import START_SECONDS
from k2k_assets_tests.orchestration.maintenance.conftest import SHIPPED
from k2k_assets_tests.support.dagster.history import History
from k2k_assets_tests.support.services.postgres import PASSWORD

# Two that copy and two that move groups, while one takes over from the other, and one that updates the mappings.
RUNS_OF_A_PIPELINE = 5


def test_dagster_takes_them(history: History) -> None:
    instance = history.instance
    assert instance.run_monitoring_enabled
    assert instance.run_monitoring_max_runtime_seconds == 0, "a run of the sync job lasts as long as its window"
    assert instance.run_monitoring_cancel_timeout_seconds >= START_SECONDS, "the sensor waits as long for one that ends"
    assert not instance.nux_enabled
    assert not instance.telemetry_enabled
    assert instance.get_tick_retention_settings(InstigatorType.SENSOR)[TickStatus.SKIPPED] == 1
    queue = instance.get_concurrency_config().run_queue_config
    assert queue is not None
    assert queue.max_concurrent_runs >= 24 * RUNS_OF_A_PIPELINE, "two dozen pipelines, all of which hand over at once"
    assert isinstance(instance.run_coordinator, QueuedRunCoordinator)
    assert instance.run_coordinator.dequeue_interval_seconds == 1, "a click is to be answered soon"
    assert instance.get_sensor_settings() == {"use_threads": True, "num_workers": 8}


def test_both_files_say_the_same_but_for_the_storage() -> None:
    sqlite, postgres = (
        yaml.safe_load((SHIPPED / name).read_text()) for name in ("dagster.yaml", "dagster-postgres.yaml")
    )
    secret = postgres.pop("storage")["postgres"]["postgres_db"]["password"]
    assert sqlite == postgres
    assert secret == {"env": "DAGSTER_POSTGRES_PASSWORD"}


def test_dagster_retries_what_no_sensor_asks_for(history: History) -> None:
    """By Dagster's own decision: of a run whose process died, and of one in which a step failed."""
    names = history.names
    definitions = build_definitions(history.folder)
    retried = {}
    for job in definitions.get_repository_def().get_all_jobs():
        run = history.instance.create_run_for_job(job, tags=job.run_tags, status=dg.DagsterRunStatus.STARTED)
        history.instance.report_run_failed(run)
        failed = history.instance.get_run_by_id(run.run_id)
        assert failed is not None
        retried[job.name] = auto_reexecution_should_retry_run(history.instance, failed, None)
    assert retried.pop(names.job)
    assert not retried.pop(names.sync_job)
    assert not retried.pop(names.mappings_job)
    assert not retried.pop(names.offset_sync_job)
    assert all(retried.values()), "clicks in the asset graph, and maintenance"


def test_a_step_that_failed_has_said_why(history: History) -> None:
    @dg.op
    def stopped() -> None:
        raise dg.Failure("stopped")

    @dg.job
    def launched() -> None:
        stopped()

    run_id = launched.execute_in_process(instance=history.instance, raise_on_error=False).run_id
    failed = history.instance.get_run_by_id(run_id)
    assert failed is not None
    assert failed.tags["dagster/will_retry"] == "false"


@pytest.mark.postgres
def test_the_password_of_postgres_is_shown_nowhere(postgres_home: Path) -> None:
    """Not by Dagster's own command, nor in what is handed to the processes of runs."""
    environment = {**os.environ, "DAGSTER_HOME": str(postgres_home), "DAGSTER_DISABLE_TELEMETRY": "yes"}
    command = [str(Path(sys.executable).with_name("dagster")), "instance", "info"]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=500)
    assert "event_log_storage" in said.stdout, "it has asked the database"
    assert PASSWORD not in said.stdout + said.stderr
    with dg.DagsterInstance.from_config(str(postgres_home)) as instance:
        assert PASSWORD not in json.dumps(instance.get_ref().to_dict())
