"""An end offset that was not told is asked for again: the client reports a broken connection as an offset."""

from __future__ import annotations

import pytest

from k2k_assets.errors import ClusterUnreachable
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.topic_partition import TopicPartition
from k2k_assets_tests.support.kafka import create_topic, produce, unique
from k2k_assets_tests.support.kafka_frames import Api
from k2k_assets_tests.support.proxy import Fault, Proxy, Trouble

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def partition(clusters: KafkaSandbox) -> TopicPartition:
    topic = create_topic(clusters.source_servers, unique("ends"))
    produce(clusters.source_servers, topic, [b"x"] * 5)
    return TopicPartition(topic, 0)


@pytest.mark.parametrize("trouble", [Trouble.CUT, Trouble.LOST, Trouble.DELAYED])
def test_a_broken_connection(clusters: KafkaSandbox, partition: TopicPartition, trouble: Trouble) -> None:
    with Proxy(clusters.source_servers) as proxy, Cluster("source", {"bootstrap.servers": proxy.servers}) as cluster:
        fault = proxy.arm(Fault(Api.LIST_OFFSETS, trouble, seconds=0.2))
        assert cluster.offsets([partition], "stable") == {partition: 5}
        assert fault.happened.is_set()
        again = proxy.arm(Fault(Api.LIST_OFFSETS, trouble, seconds=0.2))
        assert cluster.offset_at(partition, 0) == 0
        assert again.happened.is_set()


def test_a_broker_that_does_not_answer(clusters: KafkaSandbox, partition: TopicPartition) -> None:
    with Proxy(clusters.source_servers) as proxy:
        proxy.arm(Fault(Api.LIST_OFFSETS, Trouble.DROPPED))
        with (
            Cluster("source", {"bootstrap.servers": proxy.servers}, timeout=1.0) as cluster,
            pytest.raises(ClusterUnreachable, match=r"source cluster at .* does not answer"),
        ):
            cluster.offsets([partition], "latest")
