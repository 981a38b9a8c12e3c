"""A terminated run releases its partitions; another instance continues after a killed run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from k2k_assets.control.commit_log import read_commit_log
from k2k_assets.core.deadline import wait_until
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, end_offsets, produce, read_all, topics, unique
from k2k_assets_tests.support.copies.copying import commit_records
from k2k_assets_tests.support.copies.numbered import NumberedWriter
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.copies.processes import await_copied, await_words, ensure_running, is_alive, started
from k2k_assets_tests.support.copies.takeovers import copied_to, held_by
from k2k_assets_tests.support.copies.transformed import transforming
from k2k_assets_tests.support.copies.unruly import function_beside
from k2k_assets_tests.support.proof.verifying import verify

pytestmark = [pytest.mark.integration, pytest.mark.spark]

ROOT = Path(__file__).parents[3]
PARTITIONS = 2


def pipeline_file(folder: Path, clusters: KafkaSandbox, topic: str, **rest: Any) -> Path:
    """A pipeline in a folder of its own."""
    pipelines = folder / "pipelines"
    pipelines.mkdir()
    return write_pipeline(pipelines, clusters.source_servers, clusters.target_servers, [topic], **rest)


@contextmanager
def running(path: Path, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run of a pipeline's sync job in a process of its own; what it says is in `run.log`."""
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(folder),
        "K2K_HOME": str(folder / "home"),
        "K2K_PIPELINES": str(path.parent),
    }
    tool = Path(sys.executable).with_name("dagster")
    job = AssetNames(load_pipeline([path]).name).sync_job
    with (folder / "run.log").open("w") as log:
        run = subprocess.Popen(
            [str(tool), "job", "execute", "-m", "k2k_assets.definitions", "-j", job],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield run
    finally:
        run.kill()
        run.wait(10)


@pytest.mark.slow
def test_a_terminated_run_commits_and_releases(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = create_topic(clusters.source_servers, unique("terminated"))
    produce(clusters.source_servers, topic, [b"%d" % i for i in range(50)])
    path = pipeline_file(tmp_path, clusters, topic, features={"exactlyOnce": "enabled"})
    pipeline, servers = load_pipeline([path]), clusters.target_servers
    with running(path, tmp_path) as run:
        wait_until(
            lambda: run.poll() is not None or (topic in topics(servers) and len(read_all(servers, topic)) == 50),
            300,
            "50 records on the target",
            interval=0.3,
        )
        assert run.poll() is None, (tmp_path / "run.log").read_text()[-4000:]
        run.send_signal(signal.SIGINT)
        run.wait(150)
    source = Cluster("source", pipeline.client_properties("source", "admin"))
    target = Cluster("target", pipeline.client_properties("target", "admin"))
    (record,) = read_commit_log(pipeline, source.cluster_id(), target).positions.values()
    assert (record.kind, record.position) == ("release", 50)
    assert end_offsets(servers, topic) == end_offsets(servers, topic, "read_committed"), "no transaction is left open"


@pytest.mark.slow
def test_a_run_is_terminated_while_a_function_hangs(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = create_topic(clusters.source_servers, unique("terminated"))
    produce(clusters.source_servers, topic, [b"value %d" % n for n in range(50)])
    (tmp_path / "pipelines").mkdir()
    function = function_beside(tmp_path / "pipelines")
    path, pipeline = transforming(
        clusters, tmp_path / "pipelines", [topic], rules=[{"pattern": ".*", "python": function}]
    )
    log = tmp_path / "run.log"
    with running(path, tmp_path) as run:
        await_copied(run, clusters.target_servers, topic, 50)
        ((_, at),) = produce(clusters.source_servers, topic, [b"sleep"])
        await_words(run, log, f"{function} has been running for")
        run.send_signal(signal.SIGINT)
        run.wait(150)
    said = log.read_text()
    assert "was ended after" in said
    record = commit_records(pipeline, clusters.target_servers)[-1]
    assert (record.kind, record.reason) == ("release", None)
    assert record.position <= at
    assert len(read_all(clusters.target_servers, topic)) == 50


def holder(clusters: KafkaSandbox, pipeline: Pipeline) -> int:
    """The generation that holds all partitions; -1 if none does."""
    if pipeline.coordination.assignment.topic not in topics(clusters.target_servers):
        return -1
    return held_by(clusters, pipeline, PARTITIONS)


def await_next(clusters: KafkaSandbox, pipeline: Pipeline, generation: int) -> int:
    """Waits until a later generation holds everything, and has copied something; returns it."""
    wait_until(lambda: holder(clusters, pipeline) > generation, 120, "another instance to hold all partitions")
    copied = copied_to(pipeline, clusters)
    wait_until(lambda: copied_to(pipeline, clusters) > copied, 120, "it to copy something")
    return holder(clusters, pipeline)


@pytest.mark.storm
@pytest.mark.parametrize("victims", ["the run's process", "all of its processes"])
@pytest.mark.parametrize("mode", ["enabled", "disabled"])
def test_a_run_that_is_killed_is_gone_on_with_by_who_stands_by(
    clusters: KafkaSandbox, tmp_path: Path, mode: str, victims: str
) -> None:
    """A `k2k start` gives way to the run, and takes over by itself when that is killed in the middle of its copy."""
    topic = create_topic(clusters.source_servers, unique("killed"), PARTITIONS)
    path = pipeline_file(
        tmp_path,
        clusters,
        topic,
        features={"exactlyOnce": mode, "offsetMapping": "enabled", "headerReplication": "enabled"},
        coordination={"commit": {"batchSize": 20}, "assignment": {"graceWindow": "3 seconds"}},
    )
    pipeline = load_pipeline([path])
    places = [(topic, partition) for partition in range(PARTITIONS)]
    with started("-f", path, log=tmp_path / "start.log") as older:
        with NumberedWriter(clusters.source_servers, places, seed=5).going_on():
            first = await_next(clusters, pipeline, -1)
            with running(path, tmp_path) as run:
                second = await_next(clusters, pipeline, first)
                family = [psutil.Process(run.pid), *psutil.Process(run.pid).children(recursive=True)]
                for process in family if victims == "all of its processes" else family[:1]:
                    process.kill()
                await_next(clusters, pipeline, second)
                psutil.wait_procs(family, 15)
                assert not any(map(is_alive, family))
        ensure_running(older)
        older.terminate()
        assert older.wait(60) == 0, (tmp_path / "start.log").read_text()
    with started("-f", path, "--once") as last:
        _, said = last.communicate(timeout=500)
    assert last.returncode == 0, said
    verdict = verify(pipeline, clusters.source_servers, clusters.target_servers, [topic])
    assert verdict.problems == []
