"""Helpers for consumer groups of a real cluster: commit, join, read committed offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaTopicPartition

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import K2KError
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets_tests.support.brokers.kafka import (
    PATIENCE,
    SECONDS,
    admin,
    client_settings,
    producer,
    renew_admin,
    unique,
)

_ANSWER_SECONDS = 10.0

Held = dict[TopicPartition, tuple[int, str]]


def commit(
    servers: str, group: str, offsets: Mapping[TopicPartition, int], metadata: str = "", epoch: int = -1
) -> None:
    """Sets a group's offsets as an application does, or an administrator, who names no leader epoch."""
    wanted = [
        KafkaTopicPartition(tp.topic, tp.partition, at, metadata=metadata, leader_epoch=epoch)
        for tp, at in offsets.items()
    ]

    def accepted() -> bool:
        asked = admin(servers).alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)])
        try:
            answered = asked[group].result(_ANSWER_SECONDS)
        except TimeoutError:
            renew_admin(servers)  # one that has asked before there was a coordinator may never be answered
            return False
        errors = {str(p.error) for p in answered.topic_partitions if p.error}
        # The first group of a new broker makes it create the topic for offsets.
        assert all("COORDINATOR" in error for error in errors), errors
        return not errors

    wait_until(accepted, PATIENCE, f"the coordinator of {group}")


def held(servers: str, group: str) -> Held:
    """Offset and metadata of each partition in which a group has a commit, once no transaction holds them back."""

    found: Held | None = {}

    def read() -> bool:
        nonlocal found
        found = _cluster(servers).apart(_held_here, group)
        return found is not None

    wait_until(read, PATIENCE, f"the offsets of {group} to be stable")
    return found or {}


# The clusters that were asked last, each with a child process: "not coordinator" for an answer ends the process of an
# admin client (librdkafka 2.16), and here that would be the process of all tests.
_clusters: dict[str, Cluster] = {}
_CHILDREN = 2


def _cluster(servers: str) -> Cluster:
    cluster = _clusters.pop(servers, None) or Cluster("target", client_settings(servers), _ANSWER_SECONDS)
    while len(_clusters) >= _CHILDREN:
        _clusters.pop(next(iter(_clusters))).close()
    _clusters[servers] = cluster
    return cluster


def _held_here(cluster: Cluster, group: str) -> Held | None:
    """Does the work of `held` in a child process; None while a transaction holds offsets back, or nobody answers."""
    asked = cluster.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], require_stable=True)
    try:
        found: list[KafkaTopicPartition] = asked[group].result(_ANSWER_SECONDS).topic_partitions
    except TimeoutError:
        return None
    errors = {p.error.name() for p in found if p.error}
    assert errors <= {"UNSTABLE_OFFSET_COMMIT"}, errors
    if errors:
        return None
    return {TopicPartition(p.topic, p.partition): (p.offset, p.metadata or "") for p in found if p.offset >= 0}


def position(servers: str, group: str, partition: TopicPartition) -> int | None:
    """Where a group stands; None as long as its coordinator does not say.

    For a coordinator that may be starting: "not coordinator" for an answer ends the process of an admin client
    (librdkafka 2.16), but not that of a consumer.
    """
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "log_level": 0})
    try:
        (found,) = consumer.committed([KafkaTopicPartition(*partition)], timeout=SECONDS)
    except KafkaException:
        return None
    finally:
        consumer.close()
    return int(found.offset) if found.error is None and found.offset >= 0 else None


def await_held(servers: str, group: str, expected: Held) -> None:
    """Waits until a group holds just that: a first commit by a transaction shows some time after it."""
    seen: list[Held] = []

    def right() -> bool:
        seen.append(held(servers, group))
        return seen[-1] == expected

    try:
        wait_until(right, PATIENCE, f"{group} to hold {len(expected)} offsets")
    except TimeoutError:
        assert seen[-1] == expected


@contextmanager
def joining(
    servers: str,
    group: str,
    topic: str,
    protocol: Literal["classic", "consumer"],
    settings: Mapping[str, object] | None = None,
) -> Iterator[Consumer]:
    """A consumer that joins the group while it is polled, and commits nothing by itself."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **(settings or {}),
        }
    )
    try:
        consumer.subscribe([topic])
        yield consumer
    finally:
        consumer.close()


@contextmanager
def member(
    servers: str,
    group: str,
    topic: str,
    protocol: Literal["classic", "consumer"],
    settings: Mapping[str, object] | None = None,
) -> Iterator[Consumer]:
    """A consumer that is a member of the group, with an assignment, and commits nothing by itself."""
    with joining(servers, group, topic, protocol, settings) as consumer:

        def assigned() -> bool:
            consumer.poll(0.05)
            return bool(consumer.assignment())

        wait_until(assigned, PATIENCE, f"{group} to get an assignment", interval=0)
        yield consumer


def open_offset_transaction(servers: str, group: str, offsets: Mapping[TopicPartition, int]) -> Producer:
    """Commits offsets in a transaction that stays open: the caller ends it on what is returned."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    frame = consumer.consumer_group_metadata()
    consumer.close()
    client = producer(servers, unique("offsets"))
    client.begin_transaction()
    wanted = [KafkaTopicPartition(tp.topic, tp.partition, at) for tp, at in offsets.items()]
    client.send_offsets_to_transaction(wanted, frame, SECONDS)
    return client


def delete_group(servers: str, group: str) -> None:
    """Deletes a group without members.

    Raises:
        K2KError: The cluster does not delete it.
    """
    if why := _cluster(servers).apart(_delete_here, group):
        raise K2KError(f"group {group} is not deleted: {why}")


def _delete_here(cluster: Cluster, group: str) -> str:
    """Does the work of `delete_group` in a child process; returns why it could not. Its error cannot be sent."""
    try:
        cluster.admin.delete_consumer_groups([group])[group].result(_ANSWER_SECONDS)
    except (KafkaException, TimeoutError) as error:
        return str(error) or "no answer"
    return ""
