"""The sample traffic has the documented records, and its transactions behave like real ones."""

from __future__ import annotations

import threading

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.group_reader import list_states
from k2k_assets.kafka.groups import GroupState
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.sandbox.group_traffic import SAMPLE_GROUPS, following_groups
from k2k_assets.sandbox.traffic import continuous_traffic, write_sample_traffic
from k2k_assets_tests.support.brokers import kafka
from k2k_assets_tests.support.brokers.groups import held

# Other tests use the names of the sample topics too.
pytestmark = [pytest.mark.integration, pytest.mark.own_clusters]


@pytest.fixture(scope="module")
def counts(clusters: KafkaSandbox) -> dict[str, int]:
    return write_sample_traffic(clusters.source_servers)


def test_counts_are_those_of_committed_records(counts: dict[str, int], clusters: KafkaSandbox) -> None:
    assert counts == {topic: len(kafka.read_all(clusters.source_servers, topic)) for topic in counts}
    assert 20_000 <= sum(counts.values()) <= 40_000


def test_a_second_call_writes_nothing(counts: dict[str, int], clusters: KafkaSandbox) -> None:
    before = {topic: kafka.end_offsets(clusters.source_servers, topic) for topic in counts}
    assert write_sample_traffic(clusters.source_servers) == {}
    assert {topic: kafka.end_offsets(clusters.source_servers, topic) for topic in counts} == before


def test_everything_that_a_copy_may_get_wrong_is_there(counts: dict[str, int], clusters: KafkaSandbox) -> None:
    servers = clusters.source_servers
    odd = kafka.read_all(servers, "demo.oddities")
    assert {None, b""} <= {record.key for record in odd} & {record.value for record in odd}
    assert [("trace", b"1"), ("trace", b"2"), ("trace", b"1")] in [record.headers for record in odd]
    assert {None, b""} <= {value for record in odd for _, value in record.headers}
    assert min(record.timestamp for record in odd) == 1
    assert None in {record.value for record in kafka.read_all(servers, "demo.customers")}
    with Cluster("source", {"bootstrap.servers": servers}) as cluster:
        assert cluster.topic_configs(["demo.customers"])["demo.customers"]["cleanup.policy"] == "compact"
    payments = kafka.read_all(servers, "demo.payments")
    everything = kafka.read_all(servers, "demo.payments", isolation="read_uncommitted")
    assert len(everything) > len(payments)
    assert sum(kafka.end_offsets(servers, "demo.payments").values()) > len(everything)
    assert set(kafka.end_offsets(servers, "demo.empty").values()) == {0}
    assert 0 in kafka.end_offsets(servers, "demo.alerts").values()


def test_continuous_traffic_flows_until_it_is_stopped(clusters: KafkaSandbox) -> None:
    servers = clusters.target_servers
    stop = threading.Event()
    writer = threading.Thread(target=continuous_traffic, args=(servers, stop))
    writer.start()
    try:
        wait_until(lambda: "demo.orders" in kafka.topics(servers), 120, "the topics")
        wait_until(lambda: sum(kafka.end_offsets(servers, "demo.orders").values()) > 5, 120, "some orders")
        with following_groups(servers):
            first = {group.name: _read(servers, group.name) for group in SAMPLE_GROUPS}
            assert all(first.values()), first
            assert all(state.active for name, state in _states(servers).items() if name in first)
            wait_until(lambda: _read(servers, "demo-shipping") > first["demo-shipping"], 120, "another commit")
        wait_until(
            lambda: not any(state.active for name, state in _states(servers).items() if name in first),
            60,
            "the groups to be left",
        )
    finally:
        stop.set()
        writer.join(60)
        for topic in [name for name in kafka.topics(servers) if name.startswith("demo.")]:
            kafka.delete_topic(servers, topic)
    assert not writer.is_alive()


def _read(servers: str, group: str) -> int:
    return sum(offset for offset, _ in held(servers, group).values())


def _states(servers: str) -> dict[str, GroupState]:
    with Cluster("source", {"bootstrap.servers": servers}) as cluster:
        return list_states(cluster)


def test_an_aborted_transaction_is_invisible_and_leaves_a_gap(clusters: KafkaSandbox) -> None:
    servers = clusters.source_servers
    topic = kafka.create_topic(servers, kafka.unique("aborted"))
    kafka.produce(servers, topic, [b"one"], transactional_id=kafka.unique("t"))
    kafka.produce(servers, topic, [b"two"], abort=True)
    kafka.produce(servers, topic, [b"three"])
    assert [(record.offset, record.value) for record in kafka.read_all(servers, topic)] == [(0, b"one"), (4, b"three")]
    assert kafka.end_offsets(servers, topic) == {0: 5}


def test_an_open_transaction_holds_the_stable_end(clusters: KafkaSandbox) -> None:
    servers = clusters.source_servers
    topic = kafka.create_topic(servers, kafka.unique("open"))
    transaction = kafka.OpenTransaction(servers, topic, [b"held"])
    kafka.produce(servers, topic, [b"behind it"])
    assert kafka.end_offsets(servers, topic) == {0: 2}
    assert kafka.end_offsets(servers, topic, "read_committed") == {0: 0}
    assert kafka.read_all(servers, topic) == []
    transaction.commit()
    assert [record.value for record in kafka.read_all(servers, topic)] == [b"held", b"behind it"]
