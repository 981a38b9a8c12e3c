"""A leader that goes, and one that hands over: reading goes on, and nothing is missing or comes twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import ElectionType
from confluent_kafka import TopicPartition as KafkaTopicPartition

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.interface import Position
from k2k_assets.transport.record_batch.reading.source import BatchSource
from k2k_assets_tests.support.brokers.kafka import PATIENCE, SECONDS, admin, create_placed_topic, producer, send, unique
from k2k_assets_tests.support.brokers.second_node import TwoNodes

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def _leader(servers: str, topic: str) -> int:
    """The leader of partition 0; -1 while there is none that the broker has heard of."""
    partitions = admin(servers).list_topics(topic, timeout=SECONDS).topics[topic].partitions
    return int(partitions[0].leader) if partitions else -1


def test_it_follows_the_leader(tmp_path: Path) -> None:
    with TwoNodes(tmp_path) as nodes:
        topic = create_placed_topic(nodes.servers, unique("moving"), [[2, 1]], {"min.insync.replicas": "1"})
        wait_until(lambda: _leader(nodes.servers, topic) == 2, PATIENCE, "the second node to lead")
        source = BatchSource({"bootstrap.servers": nodes.servers, "socket.connection.setup.timeout.ms": 5000})
        source.assign({TopicPartition(topic, 0): Position(0)})
        seen: list[bytes | None] = []

        def all_seen(count: int) -> bool:
            for chunk in source.poll(1000, 0.1).chunks:
                assert chunk.first_offset == len(seen)
                seen.extend(chunk.columns().values())
            return len(seen) == count

        def write_and_see(name: str, count: int) -> None:
            # Idempotent: what a new leader does not take at first would come behind the rest.
            send(producer(nodes.servers, resends=False), topic, [f"{name} {n}".encode() for n in range(100)], 0)
            wait_until(lambda: all_seen(count), PATIENCE, f"{count} records", interval=0)

        write_and_see("led by the second node", 100)
        nodes.down()
        wait_until(lambda: _leader(nodes.servers, topic) == 1, PATIENCE, "the first node to lead")
        write_and_see("led by the first node", 200)
        nodes.up()

        def handed_back() -> bool:
            preferred = [KafkaTopicPartition(topic, 0)]
            admin(nodes.servers).elect_leaders(ElectionType.PREFERRED, preferred).result(SECONDS)
            return _leader(nodes.servers, topic) == 2

        wait_until(handed_back, PATIENCE, "the second node to lead again", interval=0.2)
        write_and_see("led by the second node again", 300)
        source.close()
    expected = [
        f"led by the {who} {n}" for who in ("second node", "first node", "second node again") for n in range(100)
    ]
    assert seen == [each.encode() for each in expected]
