"""A continuous copy on a real Spark standalone cluster whose workers come and go."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from k2k_assets.core.deadline import wait_until
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, unique
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.copies.processes import await_words, ensure_running, is_alive, jvms, started
from k2k_assets_tests.support.copies.takeovers import Flow, assert_all_copied, assignment_records, copied_to, topic_of
from k2k_assets_tests.support.spark.cluster import StandaloneCluster, kill_with_children, slots_on, standalone_cluster

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.slow]

PARTITIONS = 4
_SECONDS = 120.0
# Two seconds on a machine with nothing else to do. Spark itself would take a minute.
_ENDS_SECONDS = 30.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    folder = tmp_path / "spark"
    folder.mkdir()
    with standalone_cluster(folder) as found:
        yield found


@pytest.fixture
def silent_master() -> Iterator[str]:
    """`spark.master` of somebody who listens and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        yield f"spark://127.0.0.1:{silent.getsockname()[1]}"


def pipeline_file(directory: Path, clusters: KafkaSandbox, mode: str, cluster: StandaloneCluster) -> Path:
    """A pipeline of one topic with records in it, which looks for new cores every two seconds."""
    return write_pipeline(
        directory,
        clusters.source_servers,
        clusters.target_servers,
        [create_topic(clusters.source_servers, unique("standalone"), PARTITIONS)],
        features={"exactlyOnce": mode, "offsetMapping": "enabled", "headerReplication": "enabled"},
        sync={"metadataInterval": "2 seconds"},
        spark=cluster.settings(),
    )


@contextmanager
def written_meanwhile(flow: Flow) -> Iterator[Callable[[], None]]:
    """Writes without a pause; what it yields ends that."""
    ended = threading.Event()

    def write() -> None:
        while not ended.wait(0.2):
            flow.write(20)

    writer = threading.Thread(target=write)

    def end() -> None:
        ended.set()
        writer.join()

    writer.start()
    try:
        yield end
    finally:
        end()


@pytest.mark.parametrize(
    "mode", ["enabled", pytest.param("disabled", marks=pytest.mark.storm)], ids=["exactly once", "at least once"]
)
def test_slots_follow_the_cores_while_workers_are_lost_and_added(
    tmp_path: Path, clusters: KafkaSandbox, cluster: StandaloneCluster, mode: str
) -> None:
    """Two slots on two workers; one when a worker is killed; two again when another one joins."""
    workers = [cluster.add_worker(), cluster.add_worker()]
    path, log = pipeline_file(tmp_path, clusters, mode, cluster), tmp_path / "k2k.log"
    pipeline = load_pipeline([path])
    flow = Flow(clusters, topic_of(pipeline), PARTITIONS)
    flow.write()
    with started("-f", path, log=log) as process, written_meanwhile(flow) as end_writing:

        def planned() -> list[int]:
            return [json.loads(r.value or b"")["slots"] for r in assignment_records(clusters, pipeline, "instance")]

        def await_slots(*wanted: int) -> None:
            def reached() -> bool:
                ensure_running(process)
                return [slots_on(worker) for worker in workers] == [*wanted] and planned()[-1:] == [sum(wanted)]

            wait_until(reached, _SECONDS, f"{wanted} slots on the workers", interval=0.3)

        def await_copied() -> None:
            until = flow.written
            wait_until(lambda: copied_to(pipeline, clusters) >= until, _SECONDS, "what was written to be copied", 0.3)

        await_slots(1, 1)
        before = planned()[:-1]  # the second worker may have come later than the first plan
        await_copied()
        kill_with_children(workers[0])
        await_slots(0, 1)
        await_copied()
        workers.append(cluster.add_worker())
        await_slots(0, 1, 1)
        await_copied()
        assert planned() == [*before, 2, 1, 2], "a generation for each change, and no other"
        end_writing()
        await_copied()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
    assert assert_all_copied(clusters, pipeline, overtaken=True) == flow.written
    assert "cores for 2 slots, instead of 1" in log.read_text()


def test_without_an_executor_nothing_is_taken_over(
    tmp_path: Path, clusters: KafkaSandbox, cluster: StandaloneCluster
) -> None:
    """As beside another application that holds all cores: it says so and ends, before it has announced itself."""
    path = pipeline_file(tmp_path, clusters, "enabled", cluster)
    document = yaml.safe_load(path.read_text())
    document["spark"]["config"]["spark.scheduler.maxRegisteredResourcesWaitingTime"] = "2s"
    path.write_text(yaml.safe_dump(document))
    with started("-f", path) as process:
        _, err = process.communicate(timeout=_SECONDS)
    assert process.returncode == 1
    assert "has no executor after 2 seconds" in err
    assert "Traceback" not in err
    assert assignment_records(clusters, load_pipeline([path]), "instance") == []


def end_by_signal(process: subprocess.Popen[str], log: Path) -> None:
    """Ends it, in time and with its Java."""
    java = jvms(process)
    asked = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0, log.read_text()
    assert time.monotonic() - asked < _ENDS_SECONDS
    wait_until(lambda: not any(map(is_alive, java)), 120, "Java to end with it")


def test_one_that_waits_for_executors_heeds_a_signal(
    tmp_path: Path, clusters: KafkaSandbox, cluster: StandaloneCluster
) -> None:
    path, log = pipeline_file(tmp_path, clusters, "enabled", cluster), tmp_path / "k2k.log"
    with started("-f", path, log=log) as process:
        await_words(process, log, "Spark has no executor yet")
        end_by_signal(process, log)
    assert "nothing was copied" in log.read_text()
    assert "Traceback" not in log.read_text()
    assert assignment_records(clusters, load_pipeline([path]), "instance") == []


def test_one_that_waits_for_a_master_heeds_a_signal(tmp_path: Path, clusters: KafkaSandbox, silent_master: str) -> None:
    """Spark itself tries to reach it for a minute, and cannot be interrupted."""
    path, log = (
        write_pipeline(
            tmp_path,
            clusters.source_servers,
            clusters.target_servers,
            [create_topic(clusters.source_servers, unique("no-master"))],
            spark={"master": silent_master, "config": {"spark.driver.host": "127.0.0.1"}},
        ),
        tmp_path / "k2k.log",
    )
    with started("-f", path, log=log) as process:
        await_words(process, log, "delivery:")
        wait_until(lambda: jvms(process), _SECONDS, "Java to start")
        end_by_signal(process, log)
    assert "Traceback" not in log.read_text()
