"""A continuous copy waits for a broker that dies or pauses, and continues by itself with its guarantee."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import Broker, KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, end_offsets, unique
from k2k_assets_tests.support.copies.copying import Running
from k2k_assets_tests.support.copies.numbered import NumberedWriter
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.proof.verifying import verify

pytestmark = [pytest.mark.integration, pytest.mark.own_clusters]

# The clients' timeout, and the longer time for which a broker is frozen.
REQUEST_SECONDS, TRANSACTION_SECONDS, FROZEN_SECONDS = 2, 4, 7


@pytest.mark.slow
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
    wait_until(lambda: running.copied() >= 200, 120, "the first records to be copied")

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


def killed(broker: Broker) -> None:
    broker.restart(kill=True)


def frozen(broker: Broker) -> None:
    broker.pause()
    time.sleep(FROZEN_SECONDS)
    broker.resume()


@pytest.mark.storm
@pytest.mark.parametrize("exactly_once", ["enabled", "disabled"])
@pytest.mark.parametrize("victim", ["source", "target"])
@pytest.mark.parametrize("strike", [killed, frozen])
def test_a_broker_that_goes_while_records_are_copied(
    clusters: KafkaSandbox, tmp_path: Path, strike: Callable[[Broker], None], victim: str, exactly_once: str
) -> None:
    """Somebody writes before, meanwhile and after: what was on its way when the broker went is copied as promised."""
    topic = create_topic(clusters.source_servers, unique("gone"), 2)
    pipeline = impatient(clusters, tmp_path, topic, exactly_once)
    writer = NumberedWriter(clusters.source_servers, [(topic, 0), (topic, 1)], 0, pause=0.03)
    running = Running(pipeline, 2)
    with writer.going_on():
        running.await_copied(200)
        strike(clusters.source if victim == "source" else clusters.target)
        running.await_copied(running.copied() + 200)
    with writer.quiet():
        wait_until(lambda: at_the_end(running, clusters.source_servers, topic), 90, "the rest to be copied")
    running.end()
    verdict = verify(pipeline, clusters.source_servers, clusters.target_servers, [topic])
    assert verdict.problems == []
    assert verdict.records >= 400


def impatient(clusters: KafkaSandbox, directory: Path, topic: str, exactly_once: str) -> Pipeline:
    """A pipeline whose clients' time-outs are over before a frozen broker goes on."""
    source, target = clusters.source_servers, clusters.target_servers
    waits = {"socket.timeout.ms": REQUEST_SECONDS * 1000}
    producer = {**waits, "transaction.timeout.ms": TRANSACTION_SECONDS * 1000}
    consumer = {"group.id": unique("gone"), **waits}
    return make_pipeline(
        directory,
        source,
        target,
        [topic],
        features={"exactlyOnce": exactly_once, "offsetMapping": "enabled", "headerReplication": "enabled"},
        consumer=consumer,
        target={"kafka": {"common": {"bootstrap.servers": target}, "producer": producer, "consumer": waits}},
    )


def at_the_end(running: Running, source: str, topic: str) -> bool:
    """Whether all positions are behind the last record, and the marker of the last transaction."""
    assert running.error is None
    return running.positions() == {TopicPartition(topic, p): end for p, end in end_offsets(source, topic).items()}
