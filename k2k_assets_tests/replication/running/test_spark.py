"""The engine on Spark: separate executors, the stop record, and processes that die."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pyspark
import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.spark import slot_engines
from k2k_assets.spark.slot_engines import ConnectSlots
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, unique
from k2k_assets_tests.support.copies.copying import assert_exact_copy, commit_records
from k2k_assets_tests.support.copies.pipelines import make_pipeline, write_pipeline
from k2k_assets_tests.support.copies.processes import await_copied, copy_workers, executor_jvms, jvms, started

pytestmark = [pytest.mark.integration, pytest.mark.spark]

PARTITIONS = 4


@pytest.fixture
def topic(clusters: KafkaSandbox) -> str:
    name = create_topic(clusters.source_servers, unique("spark"), PARTITIONS)
    write(clusters, name)
    return name


def write(clusters: KafkaSandbox, topic: str) -> None:
    for partition in range(PARTITIONS):
        produce(clusters.source_servers, topic, [b"%d" % i for i in range(100)], partition)


def pipeline_file(directory: Path, clusters: KafkaSandbox, topic: str, **spark: str) -> Path:
    return write_pipeline(
        directory,
        clusters.source_servers,
        clusters.target_servers,
        [topic],
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled", "headerReplication": "enabled"},
        spark=spark,
    )


def end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err


@pytest.mark.slow
def test_separate_executors_copy_and_heed_the_stop_record(tmp_path: Path, clusters: KafkaSandbox, topic: str) -> None:
    path = pipeline_file(tmp_path, clusters, topic, master="local-cluster[2,1,1024]")
    with started("-f", path) as process:
        await_copied(process, clusters.target_servers, topic, 100 * PARTITIONS)
        workers = copy_workers(process)
        write(clusters, topic)
        await_copied(process, clusters.target_servers, topic, 200 * PARTITIONS)
        end(process)
    assert_exact_copy(clusters, path, topic)
    assert len({worker.pid for worker in workers}) == 2
    # The slots ended by themselves, with a release after the last transaction.
    last = {r.source: r.kind for r in commit_records(load_pipeline([path]), clusters.target_servers)}
    assert list(last.values()) == ["release"] * PARTITIONS


@pytest.mark.storm
def test_a_killed_worker_is_replaced(tmp_path: Path, clusters: KafkaSandbox, topic: str) -> None:
    path = pipeline_file(tmp_path, clusters, topic, master="local[2]")
    with started("-f", path) as process:
        await_copied(process, clusters.target_servers, topic, 100 * PARTITIONS)
        copy_workers(process)[0].kill()
        write(clusters, topic)
        await_copied(process, clusters.target_servers, topic, 200 * PARTITIONS)
        end(process)
    assert_exact_copy(clusters, path, topic)


@pytest.mark.storm
@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]"])
def test_a_killed_jvm_is_replaced(tmp_path: Path, clusters: KafkaSandbox, topic: str, master: str) -> None:
    """The driver's own, and that of an executor: the job is run again, and nobody has to start anything anew."""
    path = pipeline_file(tmp_path, clusters, topic, master=master)
    with started("-f", path) as process:
        await_copied(process, clusters.target_servers, topic, 100 * PARTITIONS)
        for jvm in executor_jvms(process)[:1] or jvms(process):
            jvm.kill()
        write(clusters, topic)
        await_copied(process, clusters.target_servers, topic, 200 * PARTITIONS)
        end(process)
    assert_exact_copy(clusters, path, topic)


@pytest.mark.storm
@pytest.mark.parametrize("victim", ["driver", "everything"])
def test_nothing_outlives_a_killed_driver_and_the_next_run_is_exact(
    tmp_path: Path, clusters: KafkaSandbox, topic: str, victim: str
) -> None:
    path = pipeline_file(tmp_path, clusters, topic, master="local[2]")
    with started("-f", path) as process:
        await_copied(process, clusters.target_servers, topic, 100 * PARTITIONS)
        left = [*copy_workers(process), *jvms(process)]
        if victim == "driver":
            os.kill(process.pid, signal.SIGKILL)
        else:
            os.killpg(process.pid, signal.SIGKILL)
            for child in left:
                child.kill()
        write(clusters, topic)
        wait_until(lambda: not any(map(psutil.Process.is_running, left)), 120, "all processes below it to end")
    with started("-f", path, "--once") as process:
        _, err = process.communicate(timeout=500)
        assert process.returncode == 0, err
    assert_exact_copy(clusters, path, topic)


@pytest.fixture
def connect_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def connect_server(tmp_path: Path, connect_port: int) -> Iterator[str]:
    with running_connect_server(tmp_path, connect_port) as address:
        yield address


@contextmanager
def running_connect_server(tmp_path: Path, port: int) -> Iterator[str]:
    """A Spark Connect server, started as its administrator would; yields its address."""
    command = [
        *(str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--conf", f"spark.connect.grpc.binding.port={port}", "--conf", "spark.ui.enabled=false"),
    ]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    log = (tmp_path / "connect-server.log").open("wb")
    with log, subprocess.Popen(command, env=environment, stdout=log, stderr=log) as server:
        try:
            wait_until(lambda: _listens(port), 90, "the Spark Connect server")
            yield f"sc://127.0.0.1:{port}"
        finally:
            server.kill()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.storm
def test_spark_connect(tmp_path: Path, clusters: KafkaSandbox, topic: str, connect_server: str) -> None:
    """A copy on a Spark Connect server starts no JVM of its own, goes on, and ends at a signal."""
    path = pipeline_file(tmp_path, clusters, topic, remote=connect_server)
    with started("-f", path) as process:
        await_copied(process, clusters.target_servers, topic, 100 * PARTITIONS)
        write(clusters, topic)
        await_copied(process, clusters.target_servers, topic, 200 * PARTITIONS)
        assert jvms(process) == [], "the server has the only one"
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "Warning" not in err
    assert_exact_copy(clusters, path, topic)


@pytest.mark.storm
def test_a_connect_server_that_was_started_anew_gets_a_new_session(
    tmp_path: Path, connect_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows the one before no more; nor does a server that was idle for an hour, as that of a stand-by."""
    monkeypatch.setattr(slot_engines, "run_slots", lambda session, plans: session.range(len(plans)).count())
    plans: Any = ["a", "b"]
    with running_connect_server(tmp_path, connect_port) as address:
        slots = ConnectSlots(make_pipeline(tmp_path, "a:1", "b:1", ["t"], spark={"remote": address}))
        assert slots.run_slots(plans) == 2  # type: ignore[comparison-overlap]
    with running_connect_server(tmp_path, connect_port):
        assert slots.run_slots(plans) == 2  # type: ignore[comparison-overlap]
        slots.stop()


def test_more_slots_than_cores_are_refused(tmp_path: Path, clusters: KafkaSandbox, topic: str) -> None:
    path = write_pipeline(
        tmp_path,
        clusters.source_servers,
        clusters.target_servers,
        [topic],
        configuration={"partitionParallelism": 5},
        spark={"master": "local[2]"},
    )
    with started("-f", path, "--once") as process:
        _, err = process.communicate(timeout=500)
    assert process.returncode == 3
    assert "configuration.partitionParallelism is 5" in err
    assert "Traceback" not in err
