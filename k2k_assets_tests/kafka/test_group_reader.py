"""Listing the consumer groups of a cluster."""

from __future__ import annotations

from concurrent.futures import Future
from itertools import permutations
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaError
from confluent_kafka.admin import ConsumerGroupListing

from k2k_assets.core.errors import ClusterUnreachable, Refused
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.group_reader import list_states
from k2k_assets_tests.support.brokers.kafka import SECONDS
from k2k_assets_tests.support.brokers.scripted_broker import ScriptedBroker


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, ClusterUnreachable),
        (KafkaError.COORDINATOR_NOT_AVAILABLE, ClusterUnreachable),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, Refused),
    ],
)
def test_only_a_broker_that_has_loaded_its_groups_can_refuse(code: int, error: type[Exception]) -> None:
    """One that was restarted answers before it has: whoever polls asks again."""
    with ScriptedBroker() as broker, Cluster("target", {"bootstrap.servers": broker.servers}, SECONDS) as cluster:
        broker.list_error = code
        with pytest.raises(error, match="target cluster"):
            list_states(cluster)
        broker.list_error = 0
        assert list_states(cluster) == {}


@pytest.mark.parametrize("order", permutations([ConsumerGroupState.EMPTY, ConsumerGroupState.STABLE]))
def test_a_group_that_two_brokers_list_may_have_members_if_one_says_so(order: tuple[ConsumerGroupState, ...]) -> None:
    """One of them does not know yet that it is the group's coordinator no more: a group with members was moved."""
    asked: Future[Any] = Future()
    valid = [ConsumerGroupListing("g", False, state, ConsumerGroupType.CLASSIC) for state in order]
    asked.set_result(SimpleNamespace(valid=valid, errors=[]))
    admin = SimpleNamespace(list_consumer_groups=lambda **_: asked)
    states = list_states(cast("Cluster", SimpleNamespace(admin=admin, timeout=1.0)))
    assert states["g"].active
