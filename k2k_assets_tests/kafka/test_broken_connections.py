"""A broken connection never counts as an answer.

For an end offset the client returns a number instead; for other requests it has its own errors.
"""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka import clients
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, unique
from k2k_assets_tests.support.brokers.kafka_frames import Api
from k2k_assets_tests.support.brokers.proxy import Fault, Proxy, Trouble

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def partition(clusters: KafkaSandbox) -> TopicPartition:
    topic = create_topic(clusters.source_servers, unique("ends"))
    produce(clusters.source_servers, topic, [b"x"] * 5)
    return TopicPartition(topic, 0)


@pytest.mark.parametrize("trouble", [Trouble.CUT, Trouble.LOST, Trouble.DELAYED])
def test_ends_are_asked_for_again(clusters: KafkaSandbox, partition: TopicPartition, trouble: Trouble) -> None:
    with Proxy(clusters.source_servers) as proxy, Cluster("source", {"bootstrap.servers": proxy.servers}) as cluster:
        fault = proxy.arm(Fault(Api.LIST_OFFSETS, trouble, seconds=0.2))
        assert cluster.offsets([partition], "stable") == {partition: 5}
        assert fault.happened.is_set()
        again = proxy.arm(Fault(Api.LIST_OFFSETS, trouble, seconds=0.2))
        assert cluster.offset_at(partition, 0) == 0
        assert again.happened.is_set()


def test_a_broker_that_does_not_tell_the_ends(clusters: KafkaSandbox, partition: TopicPartition) -> None:
    with Proxy(clusters.source_servers) as proxy:
        proxy.arm(Fault(Api.LIST_OFFSETS, Trouble.DROPPED))
        with (
            Cluster("source", {"bootstrap.servers": proxy.servers}, timeout=1.0) as cluster,
            pytest.raises(ClusterUnreachable, match=r"source cluster at .* does not answer"),
        ):
            cluster.offsets([partition], "latest")


@pytest.mark.parametrize("trouble", [Trouble.CUT, Trouble.LOST])
@pytest.mark.parametrize("occurrence", [1, 2, 3])
def test_what_breaks_is_no_refusal(clusters: KafkaSandbox, trouble: Trouble, occurrence: int) -> None:
    with Proxy(clusters.target_servers) as proxy, Cluster("target", {"bootstrap.servers": proxy.servers}) as cluster:
        fault = proxy.arm(Fault(Api.METADATA, trouble, occurrence))
        answers = []
        while not fault.happened.is_set():
            if fault.request is not None:  # the client had closed this connection itself, so the next one
                fault = proxy.arm(Fault(Api.METADATA, trouble))
            try:
                answers.append(cluster.cluster_id())
            except ClusterUnreachable as error:
                answers.append(str(error))
        assert all(answer == clusters.target.cluster_id or "does not answer" in answer for answer in answers)


@pytest.mark.parametrize("code", [KafkaError._DESTROY_BROKER, KafkaError._TRANSPORT, KafkaError.NETWORK_EXCEPTION])
def test_errors_of_broken_connections(code: int) -> None:
    assert clients.is_unreachable(KafkaError(code))


@pytest.mark.parametrize("trouble", [Trouble.CUT, Trouble.LOST])
def test_topics_are_described_again(clusters: KafkaSandbox, partition: TopicPartition, trouble: Trouble) -> None:
    """A broker that goes must not end a session that only wanted to know whether its topics are the same."""
    topic = partition.topic
    with Proxy(clusters.source_servers) as proxy, Cluster("source", {"bootstrap.servers": proxy.servers}) as cluster:
        (before,) = cluster.describe([topic]).values()
        for _ in range(3):
            fault = proxy.arm(Fault(Api.METADATA, trouble, carrying=topic.encode()))
            assert cluster.describe([topic, "unknown"]) == {topic: before}
            assert fault.happened.is_set()
