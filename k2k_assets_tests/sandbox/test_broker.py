"""Brokers restart on the same port with the same data; otherwise an error says why."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from k2k_assets.core.errors import K2KError
from k2k_assets.sandbox import Broker, KafkaSandbox
from k2k_assets.sandbox.broker_settings import free_ports, load_identity, random_id
from k2k_assets_tests.support.brokers import kafka


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One of this file's own, which is down between two tests."""
    broker = Broker("source", tmp_path_factory.mktemp("source") / "broker")
    yield broker
    broker.stop()


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.own_clusters
def test_data_outlive_a_broker_that_is_killed(clusters: KafkaSandbox) -> None:
    servers = clusters.target_servers
    topic = kafka.create_topic(servers, kafka.unique("restart"))
    kafka.produce(servers, topic, [b"before"])
    pid, cluster_id = clusters.target.pid, kafka.admin(servers).list_topics(timeout=60).cluster_id
    clusters.target.restart(kill=True)
    kafka.produce(servers, topic, [b"after"])
    assert clusters.target.pid != pid
    assert clusters.target_servers == servers
    assert kafka.admin(servers).list_topics(timeout=60).cluster_id == cluster_id == clusters.target.cluster_id
    assert [record.value for record in kafka.read_all(servers, topic)] == [b"before", b"after"]


@pytest.mark.integration
def test_two_clusters_are_two(clusters: KafkaSandbox) -> None:
    topic = kafka.create_topic(clusters.source_servers, kafka.unique("only-on-source"))
    assert clusters.source.cluster_id != clusters.target.cluster_id
    assert topic not in kafka.topics(clusters.target_servers)


@pytest.mark.integration
@pytest.mark.own_clusters
def test_a_frozen_broker_answers_again(clusters: KafkaSandbox) -> None:
    clusters.source.pause()
    assert clusters.source.is_running()
    with pytest.raises(K2KError, match="did not answer within 1 s"):
        _copy_of(clusters.source).wait_ready(1)
    clusters.source.resume()
    clusters.source.wait_ready(30)


def _copy_of(broker: Broker) -> Broker:
    """Looks at the same broker, but has no process of its own to kill when it gives up."""
    copy = Broker.__new__(Broker)
    copy.__dict__.update(broker.__dict__, kill=lambda: None)
    return copy


@pytest.mark.integration
def test_a_directory_is_found_again(broker: Broker) -> None:
    broker.start()
    topic = kafka.create_topic(broker.servers, kafka.unique("kept"))
    kafka.produce(broker.servers, topic, [b"kept"])
    broker.stop()
    again = Broker("source", broker.directory)
    try:
        again.start()
        assert (again.cluster_id, again.servers) == (broker.cluster_id, broker.servers)
        assert [record.value for record in kafka.read_all(again.servers, topic)] == [b"kept"]
    finally:
        again.stop()


@pytest.mark.integration
def test_a_setting_that_is_refused_is_shown_in_the_brokers_words(tmp_path: Path) -> None:
    broker = Broker("target", tmp_path, settings={"num.io.threads": "0"})
    with pytest.raises(K2KError, match=r"(?s)The target broker .*num\.io\.threads") as caught:
        broker.start()
    assert "\tat " not in str(caught.value)
    assert not broker.is_running()


@pytest.mark.integration
def test_a_broker_that_ends_while_it_starts_is_shown_in_its_own_words(broker: Broker) -> None:
    if not (broker.directory / "data").exists():
        broker.start()
        broker.stop()
    state = broker.directory / "data" / "__cluster_metadata-0" / "quorum-state"
    kept = state.read_text()
    state.write_text("{}")
    with pytest.raises(
        K2KError, match=r"(?s)The source broker .* ended while it started\. The end of its log:\n.*quorum-state"
    ):
        broker.start()
    state.write_text(kept)


@pytest.mark.slow
@pytest.mark.integration
def test_a_port_that_was_taken_since_it_was_drawn_is_replaced_until_clients_know_it(tmp_path: Path) -> None:
    broker = Broker("source", tmp_path)
    cluster_id, drawn = broker.cluster_id, broker.servers
    try:
        with _listener(broker):
            broker.start()
        known = broker.servers
        assert known != drawn
        assert kafka.admin(known).list_topics(timeout=60).cluster_id == cluster_id
        broker.kill()
        with _listener(broker), pytest.raises(K2KError, match="ended while it started"):
            broker.start()
        assert broker.servers == known
    finally:
        broker.kill()


@pytest.mark.slow
@pytest.mark.integration
def test_another_broker_at_the_port_is_not_taken_for_this_one(clusters: KafkaSandbox, tmp_path: Path) -> None:
    broker = Broker("source", tmp_path)
    broker._identity = broker._identity._replace(port=int(clusters.source_servers.partition(":")[2]))
    try:
        broker.start()
        assert broker.servers != clusters.source_servers
        assert kafka.admin(broker.servers).list_topics(timeout=60).cluster_id == broker.cluster_id
    finally:
        broker.kill()


def _listener(broker: Broker) -> socket.socket:
    """Takes the port of a broker that is down."""
    host, _, port = broker.servers.partition(":")
    return socket.create_server((host, int(port)))


@pytest.mark.integration
def test_a_directory_has_one_sandbox_at_a_time(tmp_path: Path) -> None:
    first = KafkaSandbox(tmp_path)
    with first:
        pids = first.source.pid, first.target.pid
        with pytest.raises(K2KError, match="Another sandbox runs in"):
            KafkaSandbox(tmp_path).start()
        assert (first.source.pid, first.target.pid) == pids
    with pytest.raises(K2KError, match="not started"):
        _ = first.source_servers


def test_ports_that_are_taken_are_replaced_and_the_cluster_id_is_not(tmp_path: Path) -> None:
    first = load_identity(tmp_path)
    assert load_identity(tmp_path) == first
    with socket.socket() as other:
        other.bind(("127.0.0.1", first.port))
        other.listen()
        second = load_identity(tmp_path)
    assert second.cluster_id == first.cluster_id
    assert second.port != first.port
    assert load_identity(tmp_path) == second


def test_ports_differ_and_are_not_those_of_outgoing_connections() -> None:
    ports = free_ports(50)
    assert len(set(ports)) == 50
    assert max(ports) < 32768


def test_two_brokers_draw_different_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though nobody listens at the first one's yet."""

    def always_the_same(ports: Sequence[int], count: int) -> list[int]:
        return list(ports[:count])

    monkeypatch.setattr(random, "sample", always_the_same)
    first, second = load_identity(tmp_path / "source"), load_identity(tmp_path / "target")
    assert not {*first[1:]} & {*second[1:]}


def test_no_cluster_id_looks_like_an_option() -> None:
    assert not any(random_id().startswith("-") for _ in range(1000))
