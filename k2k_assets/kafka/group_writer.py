"""Sets the offsets of many consumer groups at once; the groups must have no members."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka import clients
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.group_reader import IN_FLIGHT

Offsets = Mapping[str, Mapping[TopicPartition, int]]
Errors = list[tuple[int, str]]
"""Error code and text of each refusal: Kafka refuses a group with members partition by partition, not as a whole."""


def set_offsets(cluster: Cluster, offsets: Offsets, metadata: str) -> dict[str, Errors]:
    """Sets offsets of groups; a refusal in one group does not stop the others.

    Args:
        cluster: The cluster to write to.
        offsets: Offsets by group; at least one for each.
        metadata: Commit metadata for each offset.

    Returns:
        The refusals, by group; groups without refusals are left out.

    Raises:
        ClusterUnreachable: It is not known which offsets were written. The call may be repeated.
    """
    return cluster.apart(set_offsets_here, offsets, metadata) if offsets else {}


def set_offsets_here(cluster: Cluster, offsets: Offsets, metadata: str) -> dict[str, Errors]:
    """Does the work of `set_offsets` in this process, which the client can crash (see `kafka/apart.py`)."""
    refused: dict[str, Errors] = {}
    asked: deque[tuple[str, Future[Any]]] = deque()

    def take() -> None:
        group, future = asked.popleft()
        refused[group] = _errors(cluster, future)

    for group, wanted in offsets.items():
        request = [
            KafkaTopicPartition(partition.topic, partition.partition, offset, metadata=metadata)
            for partition, offset in wanted.items()
        ]
        question = [ConsumerGroupTopicPartitions(group, request)]
        asked.append(
            (group, cluster.admin.alter_consumer_group_offsets(question, request_timeout=cluster.timeout)[group])
        )
        if len(asked) >= IN_FLIGHT:
            take()
    while asked:
        take()
    return refused


def _errors(cluster: Cluster, future: Future[Any]) -> Errors:
    try:
        partitions: Iterable[Any] = future.result(timeout=cluster.timeout + 5).topic_partitions
    except KafkaException as exception:
        error = clients.error_of(exception)
        return [(error.code(), f"{error.str()} ({error.name()})")]
    except TimeoutError:
        return [(KafkaError._TIMED_OUT, "no answer in time")]
    return [
        (item.error.code(), f"{item.topic}-{item.partition}: {item.error.str()} ({item.error.name()})")
        for item in partitions
        if item.error is not None
    ]
