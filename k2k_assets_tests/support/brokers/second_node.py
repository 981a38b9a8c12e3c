"""A second node for a cluster of the sandbox: partitions that are only on it are offline while it is down."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from confluent_kafka import KafkaException

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.sandbox.broker import Broker
from k2k_assets.sandbox.broker_settings import free_ports, random_id
from k2k_assets_tests.support.brokers.groups import commit
from k2k_assets_tests.support.brokers.kafka import (
    PATIENCE,
    admin,
    create_placed_topic,
    create_topic,
    produce,
    unique,
)
from k2k_assets_tests.support.brokers.proxy import Proxy

_SECOND = 2
_ASK_SECONDS = 5.0


def _second_node(first: Broker, directory: Path, port: int, told: int) -> Broker:
    """A broker, without a controller, that joins the cluster of another one when it is started.

    Args:
        first: It runs, and knows its ports.
        directory: Of the second one.
        port: At which it listens.
        told: The port that it tells others.
    """
    known = json.loads((first.directory / "identity.json").read_text())
    data = directory / "data"
    data.mkdir(parents=True)
    (directory / "identity.json").write_text(json.dumps(known | {"port": port, "controller_port": port}))
    ids = {"version": 1, "cluster.id": known["cluster_id"], "node.id": _SECOND, "directory.id": random_id()}
    (data / "meta.properties").write_text("".join(f"{key}={value}\n" for key, value in ids.items()))
    settings = {
        "process.roles": "broker",
        "node.id": str(_SECOND),
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{told}",
        "controller.quorum.voters": f"1@127.0.0.1:{known['controller_port']}",
    }
    return Broker(first.role, directory, temporary=True, settings=settings)


def create_on_nodes(servers: str, name: str, nodes: Sequence[int], config: Mapping[str, str] | None = None) -> str:
    """Creates a topic whose partitions only one node holds each: the first is 1, the second 2; returns its name.

    Args:
        servers: Bootstrap address.
        name: Of the topic.
        nodes: The node of each partition.
        config: Of the topic.
    """
    return create_placed_topic(servers, name, [[node] for node in nodes], config)


class TwoNodes:
    """A cluster of two nodes, of which the second may go and come back; it ends when it is left.

    The first has the controller, and all that is in the topics of transactions and of groups.

    Args:
        directory: A new one.
        through_proxy: Whether clients, and the first node, reach the second one through `proxy`.

    Attributes:
        proxy: In front of the second node.
    """

    def __init__(self, directory: Path, through_proxy: bool = False) -> None:
        self._first = Broker("target", directory / "first", temporary=True)
        self._first.start()
        # Makes the topics of transactions and of groups, before there is another node that could hold a part of them.
        topic = create_topic(self.servers, unique("first"))
        produce(self.servers, topic, [b"x"], 0, unique("tx"))
        commit(self.servers, unique("first"), {TopicPartition(topic, 0): 0})
        port = free_ports(1)[0]
        self.proxy = Proxy(f"127.0.0.1:{port}")
        told = self.proxy.address[1] if through_proxy else port
        self._second = _second_node(self._first, directory / "second", port, told)
        self.proxy.__enter__()
        self.up()

    @property
    def servers(self) -> str:
        """The bootstrap address: that of the first node."""
        return self._first.servers

    def up(self) -> None:
        """The second node takes part again."""
        self._second.start()
        wait_until(lambda: len(self._brokers()) == 2, PATIENCE, "the second node to take part")

    def down(self) -> None:
        """The second node is killed, and no longer counts."""
        self._second.kill()
        wait_until(lambda: len(self._brokers()) == 1, PATIENCE, "the second node to be missed")

    def _brokers(self) -> Collection[int]:
        """The nodes that take part; none if the first one does not tell, as it may not while the other one goes."""
        try:
            return admin(self.servers).list_topics(timeout=_ASK_SECONDS).brokers
        except KafkaException:
            return ()

    def __enter__(self) -> TwoNodes:
        return self

    def __exit__(self, *_: object) -> None:
        self.proxy.__exit__(None, None, None)
        self._second.kill()
        self._first.kill()
