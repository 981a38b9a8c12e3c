"""One run of the sync job takes over from the other under steady load, also after a reload of the code location.

How long records wait then is in benchmarks/RESULTS.md: here other tests use the same processors.
"""

from __future__ import annotations

import time
from itertools import pairwise
from math import inf
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer
from confluent_kafka import TopicPartition as KafkaTopicPartition
from dagster_graphql import DagsterGraphQLClient

from k2k_assets.orchestration.names import AssetNames
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import SECONDS, create_topic, topics, unique
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.dagster.dev import DagsterDev, make_folders
from k2k_assets_tests.support.suite.background import Background

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.slow]

PER_SECOND = 50
PATIENCE = 900.0
LOCATION = "k2k_assets.definitions"


class Arrivals(Background):
    """Reads the copy, and notes how old each record is when it can be read, in seconds.

    Args:
        servers: The target.
        topic: The copy.
    """

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__("arrivals")
        self.read: list[tuple[float, float, bytes | None]] = []
        settings = {"bootstrap.servers": servers, "group.id": topic, "isolation.level": "read_committed"}
        self._consumer = Consumer({**settings, "enable.auto.commit": False})
        self._consumer.assign([KafkaTopicPartition(topic, 0, OFFSET_BEGINNING)])

    def _run(self) -> None:
        while not self._end.is_set():
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                now = time.time()
                self.read.append((now, now - message.timestamp()[1] / 1000, message.value()))
        self._consumer.close()


class SteadyWriter(Background):
    """Writes records at a steady rate.

    Args:
        servers: The source.
        topic: Where to.

    Attributes:
        values: What was written.
    """

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__("steady-writer")
        self.values: list[bytes] = []
        self._servers, self._topic = servers, topic

    def _run(self) -> None:
        producer = Producer({"bootstrap.servers": self._servers, "enable.idempotence": True})
        while not self._end.wait(1 / PER_SECOND):
            self.values.append(b"%d" % len(self.values))
            producer.produce(self._topic, self.values[-1], partition=0)
            producer.poll(0)
        producer.flush(SECONDS)


def test_take_overs_under_load_cost_nothing(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = create_topic(clusters.source_servers, unique("takeovers"))
    folder, dagster_home = make_folders(tmp_path)
    # A run goes on for at most as long as its window until the next one has begun, which takes half a minute and more
    # where other tests use the same processors.
    path = write_pipeline(
        folder,
        clusters.source_servers,
        clusters.target_servers,
        [topic],
        features={"exactlyOnce": "enabled"},
        sync={"window": "120 seconds", "reportsPerDay": 50000},
    )
    environment = {
        "DAGSTER_HOME": str(dagster_home),
        "K2K_HOME": str(tmp_path / "home"),
        "K2K_PIPELINES": str(folder),
        "K2K_SENSORS": "running",
    }
    dev = DagsterDev(tmp_path, environment, AssetNames(load_pipeline([path]).name))
    writer = SteadyWriter(clusters.source_servers, topic)
    try:
        with writer.going_on():
            dev.await_that(lambda: topic in topics(clusters.target_servers), PATIENCE, "the copy to begin")
            arrivals = Arrivals(clusters.target_servers, topic)
            with arrivals.going_on():
                dev.await_that(lambda: arrivals.read and arrivals.read[-1][1] < 5, PATIENCE, "the copy to catch up")
                dev.await_that(lambda: dev.ended_well(dev.names.sync_job) >= 1, PATIENCE, "the first take-over")
                DagsterGraphQLClient("127.0.0.1", port_number=dev.port).reload_repository_location(LOCATION)
                dev.await_that(lambda: dev.ended_well(dev.names.sync_job) >= 3, PATIENCE, "two more after a reload")
        for former, successor in pairwise(dev.runs_of(dev.names.sync_job)):
            if former.end_time is not None:
                assert (successor.start_time or inf) < former.end_time, "it begins while the former one copies"
        read = [value for _, _, value in arrivals.read]
        assert read == writer.values[: len(read)], "each once, in order"
        assert dev.failed_runs() == []
    finally:
        dev.stop()
