"""`dagster dev` with the real daemon: what is written to the source arrives on the target without a hand on it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.request import Request, urlopen

import dagster as dg
import psutil
import pytest
from dagster_graphql import DagsterGraphQLClient

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.sensors.reloading import URL_VARIABLE
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.groups import commit, held
from k2k_assets_tests.support.kafka import create_topic, produce, read_all, topics, unique
from k2k_assets_tests.support.pipelines import write_pipeline

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]


class DagsterDev:
    """`dagster dev` as a child process, with everything that it starts."""

    def __init__(self, directory: Path, environment: dict[str, str], names: AssetNames) -> None:
        self.names = names
        self.home = environment["DAGSTER_HOME"]
        self.port = _free_port()
        environment = {**environment, URL_VARIABLE: f"http://127.0.0.1:{self.port}"}
        self._log = (directory / "dagster-dev.log").open("w+")
        tool = Path(sys.executable).with_name("dagster")
        command = [str(tool), "dev", "-w", "workspace.yaml", "--host", "127.0.0.1", "--port", str(self.port)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **environment}, stdout=self._log, stderr=subprocess.STDOUT, text=True
        )

    def await_answer(self) -> None:
        """Waits until the web server answers."""
        self.await_that(lambda: _answers(f"http://127.0.0.1:{self.port}/server_info"), 120, "dagster dev to answer")

    def await_that(self, condition: Callable[[], object], timeout: float, what: str) -> None:
        """Waits for something that `dagster dev` is to bring about; its log is in the error."""
        try:
            wait_until(lambda: condition() or self._process.poll() is not None, timeout, what, interval=0.5)
            assert self._process.poll() is None, "dagster dev has ended"
        except (TimeoutError, AssertionError) as error:
            raise AssertionError(f"{error}\n{self.log()[-8000:]}") from None

    def log(self) -> str:
        """All that it printed."""
        return Path(self._log.name).read_text()

    def failed_runs(self) -> list[str]:
        """What the runs that failed say."""
        with dg.DagsterInstance.from_config(self.home) as instance:
            failed = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]))
            return [
                str(entry.message)
                for run in failed
                for entry in instance.all_logs(run.run_id)
                if entry.dagster_event and entry.dagster_event.is_failure
            ]

    def launch(self, job: str) -> str:
        """Launches a job as the UI does; returns the id of the run."""
        return DagsterGraphQLClient("127.0.0.1", port_number=self.port).submit_job_execution(job)

    def shown(self) -> set[str]:
        """The topics that the UI shows assets of."""
        body = json.dumps({"query": "{assetNodes{assetKey{path}}}"}).encode()
        request = Request(f"http://127.0.0.1:{self.port}/graphql", body, {"Content-Type": "application/json"})
        with urlopen(request, timeout=30) as response:
            nodes = json.load(response)["data"]["assetNodes"]
        return {node["assetKey"]["path"][-1] for node in nodes if "topics" in node["assetKey"]["path"]}

    def ended_well(self, job: str) -> int:
        """How many runs of a job have."""
        with dg.DagsterInstance.from_config(self.home) as instance:
            return instance.get_runs_count(dg.RunsFilter(job_name=job, statuses=[dg.DagsterRunStatus.SUCCESS]))

    def is_over(self, run_id: str) -> bool:
        """Whether a run has ended, in whatever way."""
        with dg.DagsterInstance.from_config(self.home) as instance:
            run = instance.get_run_by_id(run_id)
            return run is not None and run.is_finished

    def materialized(self, run_id: str, key: dg.AssetKey) -> frozenset[str]:
        """The metadata that a run materialized an asset with."""
        with dg.DagsterInstance.from_config(self.home) as instance:
            events = instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
            found = [e.asset_materialization for e in events if e.asset_materialization is not None]
            return frozenset(name for one in found if one.asset_key == key for name in one.metadata)

    def copying_worker(self) -> tuple[str, psutil.Process]:
        """The newest run of the sync job that copies, and its process."""
        with dg.DagsterInstance.from_config(self.home) as instance:
            statuses = [dg.DagsterRunStatus.STARTED]
            run = instance.get_runs(dg.RunsFilter(job_name=self.names.sync_job, statuses=statuses), limit=1)[0]
            told = " ".join(str(entry.message) for entry in instance.all_logs(run.run_id))
        pid = re.search(r"Executing steps in process \(pid: (\d+)\)", told)
        assert pid is not None, told
        return run.run_id, psutil.Process(int(pid[1]))

    def stop(self) -> None:
        """Ends it as Ctrl-C does; what is left after that is killed."""
        children = psutil.Process(self._process.pid).children(recursive=True)
        self._process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(30)
        self._process.kill()
        for process in children:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(children, timeout=10)
        self._log.close()


@pytest.fixture
def prefix(clusters: KafkaSandbox) -> str:
    name = unique("daemon")
    create_topic(clusters.source_servers, f"{name}.orders", 2)
    return name


@pytest.fixture
def dev(clusters: KafkaSandbox, prefix: str, tmp_path: Path) -> Iterator[DagsterDev]:
    folder, dagster_home = tmp_path / "pipelines", tmp_path / "dagster"
    for directory in (folder, dagster_home):
        directory.mkdir()
    (dagster_home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    path = write_pipeline(
        folder,
        clusters.source_servers,
        clusters.target_servers,
        f"{prefix}[.].*",
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
        groups={"consumerGroups": f"{prefix}-.*"},
        sync={"window": "45 seconds", "metadataInterval": "5 seconds"},
        index={"interval": "30 seconds"},
    )
    running = DagsterDev(
        tmp_path,
        {
            "DAGSTER_HOME": str(dagster_home),
            "K2K_HOME": str(tmp_path / "home"),
            "K2K_PIPELINES": str(folder),
            "K2K_SENSORS": "running",
        },
        AssetNames(load_pipeline([path]).name),
    )
    yield running
    running.stop()


def test_records_arrive_without_a_hand_on_it(clusters: KafkaSandbox, dev: DagsterDev, prefix: str) -> None:
    """From nothing discovered, over a topic that appears later and runs that take over, to a run that is killed."""

    def arrived(topic: str, count: int) -> Callable[[], bool]:
        servers = clusters.target_servers
        return lambda: topic in topics(servers) and len(read_all(servers, topic)) == count

    orders, late = f"{prefix}.orders", f"{prefix}.late"
    produce(clusters.source_servers, orders, [b"%d" % i for i in range(500)])
    group, at = f"{prefix}-billing", TopicPartition(orders, 0)
    commit(clusters.source_servers, group, {at: 7})
    dev.await_answer()
    dev.await_that(arrived(orders, 500), 300, f"500 records of {orders}")

    create_topic(clusters.source_servers, late)
    produce(clusters.source_servers, late, [b"a", b"b"])
    produce(clusters.source_servers, orders, [b"more"] * 20)
    dev.await_that(arrived(late, 2), 300, f"2 records of {late}, which has no asset yet")
    dev.await_that(lambda: {orders, late} <= dev.shown(), 120, "the UI to show the topics that were discovered")
    dev.await_that(arrived(orders, 520), 300, f"520 records of {orders}")
    assert [r.value for r in read_all(clusters.target_servers, late)] == [b"a", b"b"]

    dev.await_that(lambda: at in held(clusters.target_servers, group), 300, f"{group} to be moved")
    assert held(clusters.target_servers, group)[at][0] == 7
    dev.await_that(lambda: dev.ended_well(dev.names.sync_job) >= 2, 300, "runs to hand over to the next ones")

    click = dev.launch(dev.names.job)
    dev.await_that(lambda: dev.is_over(click), 300, "a click on Materialize to be answered")
    assert "k2k/copied_by" in dev.materialized(click, dev.names.topic_key(orders)), "from the run that copies"
    assert dev.failed_runs() == []

    (killed, worker) = dev.copying_worker()
    worker.kill()
    produce(clusters.source_servers, orders, [b"after"] * 10)
    dev.await_that(arrived(orders, 530), 300, "the next run to copy on where the killed one was")
    dev.await_that(lambda: dev.is_over(killed), 60, "Dagster to know that the killed one is gone")
    assert len(dev.failed_runs()) == 1, "by the sensor, or by Dagster's own code server"


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
