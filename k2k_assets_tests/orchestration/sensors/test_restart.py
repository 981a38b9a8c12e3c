"""`dagster dev` ends, with Ctrl-C or killed with all that it has started, and is started again: copying goes on."""

from __future__ import annotations

import time
from pathlib import Path

import dagster as dg
import pytest

from k2k_assets.orchestration.names import AssetNames
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, read_all, topics, unique
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.dagster.dev import DagsterDev, make_folders

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

# The goal is 30 on a machine that is not busy. Tests run beside others.
PATIENCE = 150.0


def test_after_a_restart_copying_goes_on(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = create_topic(clusters.source_servers, unique("restart"))
    folder, dagster_home = make_folders(tmp_path)
    path = write_pipeline(
        folder, clusters.source_servers, clusters.target_servers, [topic], features={"exactlyOnce": "enabled"}
    )
    environment = {
        "DAGSTER_HOME": str(dagster_home),
        "K2K_HOME": str(tmp_path / "home"),
        "K2K_PIPELINES": str(folder),
        "K2K_SENSORS": "running",
    }
    names = AssetNames(load_pipeline([path]).name)
    values: list[bytes] = []

    def copied() -> bool:
        there = topic in topics(clusters.target_servers)
        return there and [record.value for record in read_all(clusters.target_servers, topic)] == values

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
    with dg.DagsterInstance.from_config(str(dagster_home)) as instance:
        runs = instance.get_runs(dg.RunsFilter(job_name=names.sync_job))
        assert len(runs) == 3, [run.status for run in runs]
        assert all(run.is_finished for run in runs[1:]), "what was killed is not in progress for ever"
