"""`dagster dev` ends, with Ctrl-C or killed with all that it has started, and is started again: copying goes on."""

from __future__ import annotations

import time
from pathlib import Path

import dagster as dg
import pytest

from k2k_assets.definitions import build_definitions
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.runs.run_process import PROCESS_TAG
from k2k_assets.orchestration.runs.run_tags import has_worked
from k2k_assets.orchestration.sensors.next_run_decision import back_off
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, read_all, topics, unique
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.dagster.dev import DagsterDev, make_folders

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.slow]

# The goal is 30 on a machine that is not busy. Tests run beside others.
PATIENCE = 500.0


def test_after_a_restart_copying_goes_on(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = create_topic(clusters.source_servers, unique("restart"))
    names, environment = _prepared(clusters, topic, tmp_path)
    dagster_home = environment["DAGSTER_HOME"]
    values: list[bytes] = []

    def copied() -> bool:
        return _is_copied(clusters, topic, values)

    for name, end in (("first", DagsterDev.stop), ("second", DagsterDev.kill), ("third", DagsterDev.stop)):
        values.append(name.encode())
        produce(clusters.source_servers, topic, values[-1:])
        began = time.monotonic()
        dev = DagsterDev(tmp_path, environment, names)
        try:
            dev.await_that(copied, PATIENCE, f"the {name} record to be copied")
            print(f"{name}: {time.monotonic() - began:.1f} s from the start of dagster dev to the record")
        finally:
            end(dev)
    with dg.DagsterInstance.from_config(dagster_home) as instance:
        runs = instance.get_runs(dg.RunsFilter(job_name=names.sync_job))
        assert len(runs) == 3, [run.status for run in runs]
        assert all(run.is_finished for run in runs[1:]), "what was killed is not in progress for ever"


def test_a_run_that_is_killed_while_its_spark_starts_is_replaced(clusters: KafkaSandbox, tmp_path: Path) -> None:
    """Nobody is left who could say that it died, and it has claimed nothing yet."""
    topic = create_topic(clusters.source_servers, unique("restart"))
    names, environment = _prepared(clusters, topic, tmp_path)
    produce(clusters.source_servers, topic, [b"one"])
    dev = DagsterDev(tmp_path, environment, names)

    def noted() -> dg.DagsterRun | None:
        with dg.DagsterInstance.from_config(environment["DAGSTER_HOME"]) as instance:
            runs = instance.get_runs(dg.RunsFilter(job_name=names.sync_job))
        return next((run for run in runs if PROCESS_TAG in run.tags), None)

    try:
        dev.await_that(noted, PATIENCE, "a run to begin")
    finally:
        dev.kill()
    killed = noted()
    assert killed is not None
    assert topic not in topics(clusters.target_servers) or not read_all(clusters.target_servers, topic), "Spark starts"
    began = time.monotonic()
    dev = DagsterDev(tmp_path, environment, names)
    try:
        dev.await_answer()
        dev.await_that(lambda: dev.is_over(killed.run_id), PATIENCE, "Dagster to know that it is gone")
        print(f"{time.monotonic() - began:.1f} s from the start of dagster dev to the end of the dead run")
        dev.await_that(lambda: _is_copied(clusters, topic, [b"one"]), PATIENCE, "the next run to copy")
        print(f"{time.monotonic() - began:.1f} s from the start of dagster dev to the record")
    finally:
        dev.stop()


def test_a_run_that_has_copied_is_replaced_at_once_whatever_failed_before_it(
    clusters: KafkaSandbox, tmp_path: Path
) -> None:
    """It was killed: that is no failure to start, after which the sensor would wait for longer and longer."""
    topic = create_topic(clusters.source_servers, unique("restart"))
    names, environment = _prepared(clusters, topic, tmp_path)
    home = environment["DAGSTER_HOME"]
    job = build_definitions(Path(environment["K2K_PIPELINES"])).resolve_job_def(names.sync_job)
    with dg.DagsterInstance.from_config(home) as instance:
        for _ in range(8):
            failed = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTING, tags=names.sync_tags)
            instance.report_run_failed(failed, "it could not start")
    assert back_off(8) > PATIENCE

    def newest() -> dg.DagsterRun:
        with dg.DagsterInstance.from_config(home) as instance:
            return instance.get_runs(dg.RunsFilter(job_name=names.sync_job), limit=1)[0]

    produce(clusters.source_servers, topic, [b"one"])
    dev = DagsterDev(tmp_path, environment, names)
    try:
        dev.await_answer()
        run_id = dev.launch(names.sync_job)
        dev.await_that(lambda: has_worked(newest()), PATIENCE, "the run that was launched to copy")
        killed, process = dev.copying_worker()
        assert killed == run_id
        process.kill()
        dev.await_that(lambda: dev.is_over(run_id), PATIENCE, "Dagster to know that it is gone")
        produce(clusters.source_servers, topic, [b"two"])
        dev.await_that(lambda: newest().run_id != run_id and has_worked(newest()), PATIENCE, "the next run")
        dev.await_that(lambda: _is_copied(clusters, topic, [b"one", b"two"]), PATIENCE, "the record to be copied")
    finally:
        dev.stop()


def _prepared(clusters: KafkaSandbox, topic: str, directory: Path) -> tuple[AssetNames, dict[str, str]]:
    """A pipeline file; its names, and the variables for `dagster dev`."""
    folder, dagster_home = make_folders(directory)
    path = write_pipeline(
        folder, clusters.source_servers, clusters.target_servers, [topic], features={"exactlyOnce": "enabled"}
    )
    return AssetNames(load_pipeline([path]).name), {
        "DAGSTER_HOME": str(dagster_home),
        "K2K_HOME": str(directory / "home"),
        "K2K_PIPELINES": str(folder),
        "K2K_SENSORS": "running",
    }


def _is_copied(clusters: KafkaSandbox, topic: str, values: list[bytes]) -> bool:
    there = topic in topics(clusters.target_servers)
    return there and [record.value for record in read_all(clusters.target_servers, topic)] == values
