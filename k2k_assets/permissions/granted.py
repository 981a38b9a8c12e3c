"""Asks a cluster what this client may do there. It changes nothing, except that it may use one new transactional id."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin import AclOperation, NewTopic

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import Refused
from k2k_assets.kafka import clients
from k2k_assets.kafka.answers import in_thread
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.cluster_rights import is_restricted_here
from k2k_assets.permissions.required import DESCRIBING, Operation
from k2k_assets.pipeline import Pipeline
from k2k_assets.transport.errors import Restart, TimeoutTooLong, timeout_too_long
from k2k_assets.transport.factory import records_transport_of

_DENIAL = object()
_INSTEAD = dict.fromkeys(
    (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    ),
    _DENIAL,
)
_LOADING = object()
_LOADING_PAUSE = 0.05
_INSTEAD_OF_GROUPS = {
    **_INSTEAD,
    KafkaError.GROUP_ID_NOT_FOUND: None,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS: _LOADING,
    KafkaError.COORDINATOR_NOT_AVAILABLE: _LOADING,
    KafkaError.NOT_COORDINATOR: _LOADING,
}
_OPERATIONS: Mapping[Operation, AclOperation] = {
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "Create": AclOperation.CREATE,
    "Alter": AclOperation.ALTER,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
}
Wanted = Mapping[str, Collection[Operation]]


@dataclass(slots=True)
class Granted:
    """A cluster's answer about some topics or groups.

    Attributes:
        lacking: Operations that are not allowed, by name of the topic or group.
        absent: Topics that do not exist; Kafka tells only whether they may be created.
        untold: Names for which the broker does not tell the allowed operations.
    """

    lacking: dict[str, list[Operation]] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    untold: list[str] = field(default_factory=list)


def on_topics(cluster: Cluster, wanted: Wanted) -> Callable[[], Granted]:
    """Requests the allowed operations on topics; returns a function that waits for them, to overlap other waits."""
    if not wanted:
        return Granted
    names = TopicCollection(list(wanted))
    asked = cluster.admin.describe_topics(names, include_authorized_operations=True, request_timeout=cluster.timeout)

    def answer() -> Granted:
        granted = Granted()
        for name, future in asked.items():
            found = cluster.answer(future, {**_INSTEAD, KafkaError.UNKNOWN_TOPIC_OR_PART: None})
            if found is None:
                granted.absent.append(name)
            else:
                _compare(granted, name, wanted[name], found)
        return granted

    return answer


def on_groups(cluster: Cluster, wanted: Wanted) -> Granted:
    """Asks for the allowed operations on consumer groups, which need not exist.

    A coordinator that is starting is asked again for a while; if it does not answer, its groups are in `untold`.
    """
    return cluster.apart(on_groups_here, dict(wanted))


def on_groups_here(cluster: Cluster, wanted: Wanted) -> Granted:
    """Does the work of `on_groups` in this process, which the client can crash (see `kafka/apart.py`)."""
    granted = Granted()
    left = list(wanted)
    deadline = Deadline(cluster.timeout)
    while left:
        asked = cluster.admin.describe_consumer_groups(
            left, include_authorized_operations=True, request_timeout=cluster.timeout
        )
        found = {name: cluster.answer(future, _INSTEAD_OF_GROUPS) for name, future in asked.items()}
        left = [name for name, answer in found.items() if answer is _LOADING]
        for name in found.keys() - set(left):
            _compare(granted, name, wanted[name], found[name])
        if deadline.expired():
            break
        if left:
            time.sleep(_LOADING_PAUSE)
    granted.untold += left
    return granted


def is_restricted(cluster: Cluster) -> Callable[[], bool]:
    """Asks whether ACLs may forbid this client anything; returns a function that waits. Without an authorizer: no.

    A child process asks: the answer of a cluster that has just restarted may list no broker and crash the client.
    """
    return in_thread(partial(cluster.apart, is_restricted_here)).result


def not_creatable(cluster: Cluster, names: Iterable[str]) -> list[str]:
    """The absent topics that this client may not create; creates none."""
    new = [NewTopic(name, num_partitions=-1, replication_factor=-1) for name in names]
    if not new:
        return []
    asked = cluster.admin.create_topics(new, request_timeout=cluster.timeout, validate_only=True)
    denied = []
    for name, future in asked.items():
        try:
            if cluster.answer(future, _INSTEAD) is _DENIAL:
                denied.append(name)
        except Refused:
            continue  # other errors are raised when the topic is created
    return denied


def may_use_transactional_id(pipeline: Pipeline, transactional_id: str, timeout: float) -> bool:
    """Whether this client may use a transactional id; it initialises the id, which is the only way to find out.

    Args:
        pipeline: Names the target.
        transactional_id: An id that nobody uses.
        timeout: Longest time in seconds.

    Raises:
        ClusterUnreachable: The target does not answer.
        Refused: The transaction time-out is too long for the brokers, so that the permission cannot be checked.
    """
    try:
        records_transport_of(pipeline).claim(transactional_id, timeout, "looking whether transactions are allowed")
    except TimeoutTooLong:
        raise Refused(timeout_too_long(pipeline.transaction_timeout, None)) from None
    except Refused:
        return False
    except Restart as error:
        properties = pipeline.client_properties("target", "producer")
        raise clients.unreachable("target", properties, error) from None
    return True


def _compare(granted: Granted, name: str, wanted: Collection[Operation], found: Any) -> None:
    if found is _DENIAL:
        # Each of these operations includes Describe: so none of them is allowed.
        lacking = [operation for operation in wanted if operation in DESCRIBING or operation == "Describe"]
    else:
        allowed = set((found and found.authorized_operations) or ())
        if AclOperation.DESCRIBE not in allowed:
            granted.untold.append(name)  # Describe itself is allowed, for there is a description
            return
        lacking = [operation for operation in wanted if _OPERATIONS[operation] not in allowed]
    if lacking:
        granted.lacking[name] = lacking
