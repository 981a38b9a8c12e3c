"""A continuous copy with executors that Spark's scheduler for Kubernetes asks for, by the settings of docs/spark.md.

Kubernetes itself is its API alone; a pod is a process (`support/spark/kubernetes.py`).
"""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from k2k_assets.core.deadline import wait_until
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, unique
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.copies.processes import ensure_running, started
from k2k_assets_tests.support.copies.takeovers import Flow, assert_all_copied, copied_to, topic_of
from k2k_assets_tests.support.spark.cluster import kill_with_children, slots_on
from k2k_assets_tests.support.spark.kubernetes import Kubernetes, kubernetes

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.storm]

PARTITIONS = 4
POD = "k2k-0"
_SECONDS = 120.0
_PAGE = Path(__file__).parents[2] / "docs" / "spark.md"


def section() -> str:
    """What the page says of Kubernetes."""
    return _PAGE.read_text().partition("\n## Kubernetes\n")[2].partition("\n## ")[0]


def granted() -> set[tuple[str, str]]:
    """Resources and verbs of the role that the page asks for."""
    rows = re.findall(r"^\| `([a-z]+)` \| (.*) \|$", section(), re.MULTILINE)
    return {(resource, verb) for resource, verbs in rows for verb in re.findall(r"`([a-z]+)`", verbs)}


def settings(master: str, folder: Path) -> dict[str, Any]:
    """Those of the page, but for addresses, paths and sizes of this machine; and no watch, which the API lacks."""
    shown = re.search(r"```yaml\n(.*?)```", section(), re.DOTALL)
    assert shown
    spark: dict[str, Any] = yaml.safe_load(shown[1])["spark"]
    spark["master"] = master
    del spark["config"]["spark.driver.port"], spark["config"]["spark.driver.blockManager.port"]
    spark["config"] |= {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.instances": 2,
        "spark.executor.cores": 1,
        "spark.executor.memory": "512m",
        "spark.pyspark.python": sys.executable,
        "spark.local.dir": str(folder / "driver"),
        "spark.kubernetes.executor.enableApiWatcher": False,
        "spark.kubernetes.executor.apiPollingInterval": "1s",
    }
    return spark


def test_pods_of_the_settings_of_the_page_copy_and_one_that_is_lost_is_replaced(
    tmp_path: Path, clusters: KafkaSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POD_NAME", POD)
    with kubernetes(tmp_path, POD) as (cluster, master):
        path, log = (
            write_pipeline(
                tmp_path, clusters.source_servers, clusters.target_servers,
                [create_topic(clusters.source_servers, unique("kubernetes"), PARTITIONS)],
                features={"exactlyOnce": "enabled", "offsetMapping": "enabled", "headerReplication": "enabled"},
                sync={"metadataInterval": "2 seconds"},
                spark=settings(master, tmp_path),
            ),
            tmp_path / "k2k.log",
        )  # fmt: skip
        pipeline = load_pipeline([path])
        flow = Flow(clusters, topic_of(pipeline), PARTITIONS)
        with started("-f", path, log=log) as process:

            def await_copied_by(slots: int) -> None:
                flow.write(20)
                until = flow.written

                def reached() -> bool:
                    ensure_running(process)
                    working = [slots_on(pod.process) for pod in list(cluster.pods.values())]
                    return sum(working) == slots == len([each for each in working if each]) and (
                        copied_to(pipeline, clusters) >= until
                    )

                wait_until(reached, _SECONDS, f"{slots} pods to copy what was written", 0.3)

            await_copied_by(2)
            assert_as_the_page_says(cluster)
            kill_with_children(next(iter(cluster.pods.values())).process)
            await_copied_by(2)
            assert len(cluster.asked) == 3, "one for the one that was lost"
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, log.read_text()
            assert cluster.requests <= granted(), "the role of the page allows all of it"
        wait_until(lambda: not cluster.pods, 120, "the pods to be deleted")
    assert assert_all_copied(clusters, pipeline, overtaken=True) == flow.written
    assert "Traceback" not in log.read_text()


def assert_as_the_page_says(cluster: Kubernetes) -> None:
    """What Spark has made of the settings."""
    assert cluster.namespaces == {"k2k"}
    for pod in cluster.asked:
        assert pod.container["image"] == "registry.example.com/k2k-assets:0.1.0"
        (owner,) = pod.manifest["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("Pod", POD), "deleted with the driver's pod"
        assert pod.container["resources"]["requests"] == {"cpu": "1", "memory": "1536Mi"}
        assert pod.environment["SPARK_EXECUTOR_MEMORY"] == "512m"
