"""The figures in statistics of clients, made up and of the real library."""

from __future__ import annotations

import json
from typing import Any

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.kafka import clients
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.client_statistics import COUNTERS, GAUGES, ClientKind, ClientStatistics, figures_of
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, unique


def broker(nodeid: int, **more: Any) -> dict[str, Any]:
    zero = dict.fromkeys(("txretries", "req_timeouts", "rxerrs", "txerrs", "connects", "disconnects"), 0)
    return {"nodeid": nodeid, "state": "UP", "rtt": {"p99": 0}, "throttle": {"max": 0}, **zero, **more}


def document(**more: Any) -> str:
    totals = dict.fromkeys(("rxmsgs", "rxmsg_bytes", "txmsgs", "txmsg_bytes", "tx", "tx_bytes", "rx_bytes"), 0)
    rest = {"name": "rdkafka#1", "msg_cnt": 0, "msg_size": 0, "brokers": {}, "topics": {}}
    return json.dumps({**totals, **rest, **more})


def test_brokers_and_partitions_are_summed_up_and_the_slowest_counts() -> None:
    brokers = {
        "bootstrap": broker(-1, connects=9),
        "one": broker(1, connects=2, rxerrs=1, txerrs=2, rtt={"p99": 1500}, throttle={"max": 250}),
        "two": broker(2, connects=3, state="DOWN", rtt={"p99": 900}),
        "three": broker(3, state="UPDATE"),
    }
    partitions = {"-1": {"fetchq_cnt": 99, "fetchq_size": 99}, "0": {"fetchq_cnt": 3, "fetchq_size": 300}}
    text = document(brokers=brokers, topics={"orders": {"partitions": partitions}}, rxmsgs=7, txmsgs=8, msg_cnt=5)
    read, written = figures_of("consumer", text), figures_of("producer", text)
    assert (read.counters["records"], written.counters["records"]) == (7, 8)
    assert (read.counters["connections"], read.counters["request.errors"]) == (5, 3)
    assert (read.gauges["queue.records"], read.gauges["queue.bytes"], written.gauges["queue.records"]) == (3, 300, 5)
    assert (read.gauges["request.latency"], read.gauges["throttle.time"]) == (0.0015, 0.25)
    assert read.gauges["brokers.connected"] == 2


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"brokers": {"a": {}}}', "null"])
def test_what_is_no_statistics_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        figures_of("consumer", text)


@pytest.mark.integration
def test_the_real_library_makes_them(clusters: KafkaSandbox) -> None:
    topic = create_topic(clusters.source_servers, unique("statistics"))
    texts: list[tuple[ClientKind, str]] = []
    made = ClientStatistics(100, lambda kind, text: texts.append((kind, str(text))))
    servers = {"bootstrap.servers": clusters.source_servers}
    producer = clients.producer(servers, made.settings("producer"))
    for _ in range(10):
        producer.produce(topic, b"value")

    def told(kind: ClientKind, name: str) -> float:
        figures = [figures_of(of, text) for of, text in texts if of == kind]
        assert all(each.counters.keys() == set(COUNTERS) and each.gauges.keys() == set(GAUGES) for each in figures)
        return figures[-1].counters[name] if figures else 0

    def produced() -> bool:
        producer.flush(0.1)
        return told("producer", "records") == 10

    wait_until(produced, 120, "the producer's statistics")
    produce(clusters.source_servers, topic, [b"more"], 0)
    consumer = clients.consumer(servers, made.settings("consumer"))
    try:
        from confluent_kafka import TopicPartition

        consumer.assign([TopicPartition(topic, 0, 0)])

        def consumed() -> bool:
            consumer.consume(100, 0.1)
            return told("consumer", "records") == 11

        wait_until(consumed, 120, "the consumer's statistics")
    finally:
        consumer.close()
