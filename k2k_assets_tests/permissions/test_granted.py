"""Fake answers of brokers about authorized operations: some have nothing, or less than they could."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclOperation

from k2k_assets.core.errors import Refused
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.permissions.granted import Granted, may_use_transactional_id, on_groups_here, on_topics
from k2k_assets.permissions.required import Operation
from k2k_assets.transport.librdkafka import transport
from k2k_assets_tests.support.copies.pipelines import make_pipeline

WANTED: tuple[Operation, ...] = ("Read", "DescribeConfigs")


def _asked(answer: Any) -> Granted:
    """What is made of a broker's answer about the topic `orders`."""

    def result(timeout: float) -> Any:
        if isinstance(answer, int):
            raise KafkaException(KafkaError(answer))
        return SimpleNamespace(authorized_operations=answer)

    admin = SimpleNamespace(
        describe_topics=lambda *_, **__: {"orders": SimpleNamespace(result=result)}, poll=lambda _: 0
    )
    cluster = Cluster("source", {"bootstrap.servers": "played:9092"})
    cluster._admin = cast(Any, admin)
    return on_topics(cluster, {"orders": WANTED})()


@pytest.mark.parametrize(
    ("answer", "lacking", "absent"),
    [
        ([AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS], [], []),
        ([AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS], ["Read"], []),
        ([AclOperation.DESCRIBE], ["Read", "DescribeConfigs"], []),
        (None, [], []),
        ([], [], []),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, ["Read"], []),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, [], ["orders"]),
    ],
)
def test_what_is_made_of_an_answer(answer: Any, lacking: list[str], absent: list[str]) -> None:
    granted = _asked(answer)
    assert granted.lacking.get("orders", []) == lacking
    assert granted.absent == absent


def test_a_time_out_that_is_too_long_is_no_missing_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise KafkaException(KafkaError(KafkaError.INVALID_TRANSACTION_TIMEOUT))

    producer = SimpleNamespace(list_topics=lambda **_: None, init_transactions=refuse)
    monkeypatch.setattr(transport, "transactional_producer", lambda *_: producer)
    target = {"kafka": {"common": {"bootstrap.servers": "b:1"}, "producer": {"transaction.timeout.ms": 900001}}}
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["t"], target=target)
    with pytest.raises(Refused, match=r"'transaction.timeout.ms' is 900001, which is longer than the target cluster"):
        may_use_transactional_id(pipeline, "id", 1.0)


def test_a_coordinator_that_is_starting_is_asked_again() -> None:
    answers = [
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    ]

    cluster = _playing(lambda: answers.pop(0))
    assert on_groups_here(cluster, {"readers": ["Read"]}) == Granted(lacking={"readers": ["Read"]})
    assert answers == []


def test_what_a_coordinator_does_not_say_in_time_is_untold() -> None:
    cluster = _playing(lambda: KafkaError.COORDINATOR_LOAD_IN_PROGRESS, timeout=0.1)
    assert on_groups_here(cluster, {"readers": ["Read"]}) == Granted(untold=["readers"])


def _playing(code: Callable[[], int], timeout: float | None = None) -> Cluster:
    """A cluster whose coordinator answers with error codes."""

    def result(timeout: float) -> Any:
        raise KafkaException(KafkaError(code()))

    asked = {"readers": SimpleNamespace(result=result)}
    cluster = Cluster("target", {"bootstrap.servers": "played:9092"}, timeout)
    admin = SimpleNamespace(describe_consumer_groups=lambda *_, **__: asked, poll=lambda _: 0)
    cluster._admin = cast(Any, admin)
    return cluster
