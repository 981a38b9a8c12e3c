"""A broker that dies or pauses is waited for: a continuous copy goes on by itself, exactly once."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.deadline import wait_until
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.copying import Running
from k2k_assets_tests.support.kafka import create_topic, unique
from k2k_assets_tests.support.numbered import NumberedWriter
from k2k_assets_tests.support.pipelines import make_pipeline
from k2k_assets_tests.support.verifying import verify

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("exactly_once", ["enabled", pytest.param("disabled", marks=pytest.mark.storm)])
@pytest.mark.parametrize("victim", ["source", "target"])
def test_a_killed_broker_that_comes_back(
    clusters: KafkaSandbox, tmp_path: Path, victim: str, exactly_once: str
) -> None:
    topic = create_topic(clusters.source_servers, unique("restart"), 2)
    features = {"exactlyOnce": exactly_once, "offsetMapping": "enabled", "headerReplication": "enabled"}
    pipeline = make_pipeline(tmp_path, clusters.source_servers, clusters.target_servers, [topic], features=features)
    writer = NumberedWriter(clusters.source_servers, [], 0)

    def write() -> None:
        for partition in range(2):
            writer.write(100, topic, partition, "plain")

    running = Running(pipeline, 2)
    write()
    wait_until(lambda: running.copied() >= 200, 60, "the first records to be copied")

    broker = clusters.source if victim == "source" else clusters.target
    broker.kill()
    if victim == "target":
        write()
    broker.start()
    write()
    total = 600 if victim == "target" else 400
    wait_until(lambda: running.copied() >= total, 90, "the rest to be copied")
    running.stop.set()
    running.join()

    assert running.error is None
    verdict = verify(pipeline, clusters.source_servers, clusters.target_servers, [topic])
    assert (verdict.records, verdict.problems) == (total, [])
