"""A cluster of three nodes, each a broker and a controller: any one of them may go, and come back."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from confluent_kafka import ElectionType, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from k2k_assets.core.deadline import wait_until
from k2k_assets.sandbox.broker import Broker
from k2k_assets.sandbox.broker_settings import free_ports, random_id
from k2k_assets_tests.support.brokers.kafka import PATIENCE, SECONDS, admin, create_placed_topic, produce, unique

NODES = (1, 2, 3)
_TRANSACTIONS = "__transaction_state"
_ASK_SECONDS = 5.0
_CLUSTER_SECONDS = 240.0

_ON_ALL = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "auto.leader.rebalance.enable": "false",
    # Sooner than any step of a producer ends: nothing waits for a replica that does not fetch.
    "replica.lag.time.max.ms": "10000",
}
_LAST_LINES = 40


class ThreeNodes:
    """The cluster; topics are on all nodes, and are written while two of them are there.

    Args:
        role: "source" or "target": how messages name it.
        directory: A new one.
    """

    def __init__(self, role: Literal["source", "target"], directory: Path) -> None:
        self._ports = dict(zip(NODES, free_ports(len(NODES)), strict=True))
        controllers = dict(zip(NODES, free_ports(len(NODES)), strict=True))
        unused = free_ports(len(NODES))
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in controllers.items())
        cluster_id = random_id()
        self.nodes: dict[int, Broker] = {}
        for node in NODES:
            home = directory / f"{role}-{node}"
            home.mkdir(parents=True)
            ports = {"port": self._ports[node], "controller_port": controllers[node], "mtls_port": unused.pop()}
            (home / "identity.json").write_text(json.dumps({"cluster_id": cluster_id, **ports}))
            settings = {"node.id": str(node), "controller.quorum.voters": voters, **_ON_ALL}
            self.nodes[node] = Broker(role, home, temporary=True, settings=settings)
        for broker in self.nodes.values():
            broker.start(wait=False)
        for broker in self.nodes.values():
            broker.wait_ready(_CLUSTER_SECONDS)
        self.await_all()
        produce(
            self.servers, self.create(unique("first"), [1]), [b"x"], 0, unique("tx")
        )  # makes the transactions' topic
        self.await_all()

    @property
    def servers(self) -> str:
        """The bootstrap addresses of all nodes."""
        return ",".join(self.servers_of(node) for node in NODES)

    def servers_of(self, node: int) -> str:
        """The bootstrap address of one node."""
        return f"127.0.0.1:{self._ports[node]}"

    def create(self, name: str, leaders: Collection[int]) -> str:
        """Creates a topic of which each partition is on all nodes; returns its name once it is led as wanted.

        Args:
            name: Of the topic.
            leaders: The preferred leader of each partition.
        """
        replicas = [[leader, *(node for node in NODES if node != leader)] for leader in leaders]
        create_placed_topic(self.servers, name, replicas)

        def led_as_wanted() -> bool:
            if self.leaders(name) == list(leaders):
                return True
            # A node that was held up just then does not lead what it should, and is given nothing back by itself.
            every = [KafkaTopicPartition(name, partition) for partition in range(len(replicas))]
            with suppress(KafkaException, TimeoutError):
                admin(self.servers).elect_leaders(ElectionType.PREFERRED, every).result(SECONDS)
            return False

        wait_until(led_as_wanted, PATIENCE, f"{name} to be led as wanted", interval=0.2)
        return name

    def leaders(self, topic: str) -> list[int]:
        """The leader of each partition."""
        partitions = admin(self.servers).list_topics(topic, timeout=SECONDS).topics[topic].partitions
        return [int(partitions[index].leader) for index in sorted(partitions)]

    def elect_preferred(self, topic: str, partition: int, leader: int) -> None:
        """Hands a partition to its preferred leader, which is in sync."""

        def handed_over() -> bool:
            admin(self.servers).elect_leaders(ElectionType.PREFERRED, [KafkaTopicPartition(topic, partition)]).result(
                SECONDS
            )
            return self.leaders(topic)[partition] == leader

        wait_until(handed_over, SECONDS, f"node {leader} to lead {topic}-{partition}", interval=0.2)

    def coordinator_of(self, transactional_id: str) -> int:
        """The node that coordinates a transactional id."""
        leaders = self.leaders(_TRANSACTIONS)
        return leaders[_hash(transactional_id) % len(leaders)]

    def restart(self, node: int) -> None:
        """A node goes in good order, comes back, and is in sync again before this returns."""
        self.nodes[node].stop()
        self.nodes[node].start()
        self.await_all()

    @contextmanager
    def frozen(self, node: int) -> Iterator[None]:
        """A node answers nothing while the block lasts."""
        self.nodes[node].pause()
        try:
            yield
        finally:
            self.nodes[node].resume()

    def said(self) -> str:
        """The last lines that each node has logged, for a test that failed."""
        logs = {node: broker.log_file.read_text(errors="replace").splitlines() for node, broker in self.nodes.items()}
        return "\n".join(f"node {node}: {line}" for node, lines in logs.items() for line in lines[-_LAST_LINES:])

    def await_all(self) -> None:
        """Returns when all nodes are there and in sync."""
        wait_until(self._are_all_in_sync, _CLUSTER_SECONDS, "all nodes to be there and in sync")

    def _are_all_in_sync(self) -> bool:
        try:
            found = admin(self.servers).list_topics(timeout=_ASK_SECONDS)
        except KafkaException:
            return False
        partitions = [each for topic in found.topics.values() for each in topic.partitions.values()]
        return len(found.brokers) == len(NODES) and all(len(each.isrs) == len(each.replicas) for each in partitions)

    def __enter__(self) -> ThreeNodes:
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self.nodes.values():
            broker.kill()


def _hash(name: str) -> int:
    """Java's, of a string, as Kafka makes it positive."""
    found = 0
    for letter in name:
        found = (31 * found + ord(letter)) & 0xFFFFFFFF
    return found & 0x7FFFFFFF
