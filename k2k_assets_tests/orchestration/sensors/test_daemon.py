"""`dagster dev` with the real daemon: new records of the source arrive on the target by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.groups import commit, held
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, read_all, topics, unique
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.dagster.dev import DagsterDev, make_folders

pytestmark = [pytest.mark.integration, pytest.mark.spark]

ROOT = Path(__file__).parents[3]
PATIENCE = 900  # Groups wait for the checks, and those for two runs on Spark: minutes where all else runs beside them.


@pytest.fixture
def prefix(clusters: KafkaSandbox) -> str:
    name = unique("daemon")
    create_topic(clusters.source_servers, f"{name}.orders", 2)
    return name


@pytest.fixture
def dev(clusters: KafkaSandbox, prefix: str, tmp_path: Path) -> Iterator[DagsterDev]:
    folder, dagster_home = make_folders(tmp_path)
    path = write_pipeline(
        folder,
        clusters.source_servers,
        clusters.target_servers,
        f"{prefix}[.].*",
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
        groups={"consumerGroups": f"{prefix}-.*"},
        sync={"window": "120 seconds", "metadataInterval": "5 seconds", "reportsPerDay": 50000},
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


@pytest.mark.slow
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
    dev.await_that(arrived(orders, 500), PATIENCE, f"500 records of {orders}")

    create_topic(clusters.source_servers, late)
    produce(clusters.source_servers, late, [b"a", b"b"])
    produce(clusters.source_servers, orders, [b"more"] * 20)
    dev.await_that(arrived(late, 2), PATIENCE, f"2 records of {late}, which has no asset yet")
    dev.await_that(lambda: {orders, late} <= dev.shown(), PATIENCE, "the UI to show the topics that were discovered")
    dev.await_that(arrived(orders, 520), PATIENCE, f"520 records of {orders}")
    assert [r.value for r in read_all(clusters.target_servers, late)] == [b"a", b"b"]

    dev.await_that(lambda: at in held(clusters.target_servers, group), PATIENCE, f"{group} to be moved")
    assert held(clusters.target_servers, group)[at][0] == 7
    dev.await_that(lambda: dev.ended_well(dev.names.sync_job) >= 2, PATIENCE, "runs to hand over to the next ones")

    click = dev.launch(dev.names.job)
    dev.await_that(lambda: dev.is_over(click), PATIENCE, "a click on Materialize to be answered")
    assert "k2k/copied_by" in dev.materialized(click, dev.names.topic_key(orders)), "from the run that copies"
    assert dev.failed_runs() == []
    assert [line for line in dev.said() if " object at 0x" in line] == [], "for people"

    (killed, worker) = dev.copying_worker()
    worker.kill()
    produce(clusters.source_servers, orders, [b"after"] * 10)
    dev.await_that(arrived(orders, 530), PATIENCE, "the next run to copy on where the killed one was")
    dev.await_that(lambda: dev.is_over(killed), PATIENCE, "Dagster to know that the killed one is gone")
    assert len(dev.failed_runs()) == 1, "by the sensor, or by Dagster's own code server"
