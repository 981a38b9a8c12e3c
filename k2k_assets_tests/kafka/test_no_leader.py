"""Offline partitions are named, and do not delay the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import ListOffsetsResultInfo

from k2k_assets.core.errors import ClusterUnreachable, Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.answers import NoLeader
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import add_partitions, create_topic, produce, unique
from k2k_assets_tests.support.brokers.second_node import TwoNodes, create_on_nodes

P = [TopicPartition("t", number) for number in range(9)]
CODES = [
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
]


class Admin:
    """As much of an admin client as a question for offsets needs; each is answered from what it was told.

    Args:
        answer: Of a partition, at the n-th question: an offset, or a code.
    """

    def __init__(self, answer: Callable[[int, int], int | KafkaError]) -> None:
        self._answer = answer
        self.asked: list[list[int]] = []

    def list_offsets(self, wanted: Any, **_: object) -> dict[KafkaTopicPartition, Future[Any]]:
        self.asked.append([t.partition for t in wanted])
        return {t: self._future(self._answer(t.partition, len(self.asked))) for t in wanted}

    def poll(self, _: float) -> int:
        return 0

    def _future(self, answer: int | KafkaError) -> Future[Any]:
        future: Future[Any] = Future()
        if isinstance(answer, KafkaError):
            future.set_exception(KafkaException(answer))
        else:
            future.set_result(ListOffsetsResultInfo(answer, -1, -1))
        return future


@pytest.fixture
def cluster_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[Admin], Cluster]:
    def make(admin: Admin) -> Cluster:
        monkeypatch.setattr(Cluster, "admin", admin)
        monkeypatch.setattr(Cluster, "topics", lambda _: {})
        monkeypatch.setattr(Cluster, "_metadata", lambda _: None)
        return Cluster("source", {"bootstrap.servers": "a:1"}, timeout=0.3)

    return make


@pytest.mark.parametrize("code", CODES)
def test_what_passes_is_asked_for_again_and_the_rest_is_not(cluster_of: Any, code: int) -> None:
    admin = Admin(lambda partition, question: KafkaError(code) if partition and question == 1 else 7)
    assert cluster_of(admin).offsets(P[:2], "latest") == {P[0]: 7, P[1]: 7}
    assert admin.asked == [[0, 1], [1]]


@pytest.mark.parametrize("code", CODES)
def test_partitions_without_a_leader_are_named(cluster_of: Any, code: int) -> None:
    admin = Admin(lambda partition, _: KafkaError(code) if partition else 7)
    with pytest.raises(NoLeader, match=r"source cluster \(a:1\).* for t-1, t-2, t-3, t-4, t-5 and 3 more: .*offline"):
        cluster_of(admin).offsets(P, "latest")


def test_the_others_are_answered_for(cluster_of: Any) -> None:
    admin = Admin(lambda partition, _: KafkaError(KafkaError.KAFKA_STORAGE_ERROR) if partition else 7)
    found, missing = cluster_of(admin).led_offsets(P[:3], "latest", patience=0.3)
    assert found == {P[0]: 7}
    assert len(admin.asked) > 1
    assert missing.keys() == {P[1], P[2]}
    assert "for t-2: Broker: Disk error" in missing[P[2]]


def test_asked_once(cluster_of: Any) -> None:
    """Without patience an offline partition is left out after one question."""
    admin = Admin(lambda partition, _: KafkaError(KafkaError.LEADER_NOT_AVAILABLE) if partition else 7)
    assert cluster_of(admin).led_offsets(P[:2], "latest").offsets == {P[0]: 7}
    assert len(admin.asked) == 1


def test_none_with_a_leader(cluster_of: Any) -> None:
    """If no partition has a leader, there is still the reason of each."""
    admin = Admin(lambda *_: KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    found, missing = cluster_of(admin).led_offsets(P[:2], "latest")
    assert (found, missing.keys()) == ({}, {P[0], P[1]})
    assert "for t-1: Broker: Leader not available" in missing[P[1]]


@pytest.mark.parametrize("patience", [0, 0.2])
def test_if_nobody_answers_nothing_is_known_of_leaders(cluster_of: Any, patience: float) -> None:
    admin = Admin(lambda *_: OFFSET_INVALID)
    with pytest.raises(ClusterUnreachable, match="no answer in time") as raised:
        cluster_of(admin).led_offsets(P[:2], "latest", patience)
    assert not isinstance(raised.value, NoLeader)
    with pytest.raises(ClusterUnreachable, match="no answer in time"):
        cluster_of(admin).offsets(P[:2], "latest")


def test_of_a_time_what_was_found_stays_if_the_others_lose_their_leader(cluster_of: Any) -> None:
    """Two questions: where the partitions end, and where the record of the time lies."""

    def answer(partition: int, question: int) -> int | KafkaError:
        if partition == question:
            return KafkaError(KafkaError.LEADER_NOT_AVAILABLE)
        return 9 if question == 1 else 5

    admin = Admin(answer)
    found, missing = cluster_of(admin).led_offsets_at(P[:3], 1000)
    assert (found, missing.keys(), admin.asked) == ({P[0]: 5}, {P[1], P[2]}, [[0, 1, 2], [0, 2]])


def test_of_a_time_that_no_record_is_as_young_as_it_is_the_end(cluster_of: Any) -> None:
    """As it was before the record of the time was asked for: what is written between the two is not passed over."""

    def answer(partition: int, question: int) -> int | KafkaError:
        return 9 if question % 2 else -1 if partition else 5

    assert cluster_of(Admin(answer)).led_offsets_at(P[:2], 1000) == ({P[0]: 5, P[1]: 9}, {})
    assert cluster_of(Admin(answer)).offsets_at(P[:2], 1000) == {P[0]: 5, P[1]: 9}


def test_a_record_that_is_written_between_the_two_questions_is_not_passed_over(cluster_of: Any) -> None:
    """A topic whose log grows by a record with each question, all of them older than the time."""

    class Growing(Admin):
        def list_offsets(self, wanted: Any, **rest: object) -> dict[KafkaTopicPartition, Future[Any]]:
            of_time = all(spec._value > 0 for spec in wanted.values())
            self._answer = lambda _, question: -1 if of_time else 10 + question
            return super().list_offsets(wanted, **rest)

    assert cluster_of(Growing(lambda *_: 0)).offsets_at(P[:1], 1000) == {P[0]: 11}
    assert cluster_of(Growing(lambda *_: 0)).led_offsets_at(P[:1], 1000).offsets == {P[0]: 11}


def test_a_partition_that_the_client_does_not_know_is_asked_for_again(
    cluster_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = KafkaError(KafkaError._UNKNOWN_PARTITION)
    admin = Admin(lambda partition, question: unknown if partition and question == 1 else 7)
    cluster = cluster_of(admin)
    monkeypatch.setattr(Cluster, "topics", lambda _: {"t": 2})
    assert cluster.offsets(P[:3], "latest") == {P[0]: 7, P[1]: 7}, "the third does not exist"
    assert admin.asked == [[0, 1, 2], [1]]


@pytest.mark.integration
def test_partitions_that_were_added_since_the_client_last_looked(clusters: KafkaSandbox) -> None:
    """Otherwise an instance that copies would end when a topic gets more partitions."""
    topic = create_topic(clusters.source_servers, unique("grows"))
    with Cluster("source", {"bootstrap.servers": clusters.source_servers}) as cluster:
        for count in (2, 4):
            cluster.offsets([TopicPartition(topic, p) for p in range(count - 1)], "latest")
            add_partitions(clusters.source_servers, topic, count)
            asked = [TopicPartition(topic, p) for p in range(count)]
            assert cluster.offsets(asked, "latest") == dict.fromkeys(asked, 0)
            add_partitions(clusters.source_servers, topic, count := count + 1)
            more = TopicPartition(topic, count - 1)
            cluster.led_offsets([*asked, more], "latest")
            assert cluster.led_offsets([*asked, more], "latest").offsets[more] == 0, "known with the next look"
        nowhere = TopicPartition(topic, 40)
        assert nowhere not in cluster.offsets([*asked, nowhere], "latest")


def test_a_refusal_stays_one(cluster_of: Any) -> None:
    admin = Admin(lambda partition, _: KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED) if partition else 7)
    with pytest.raises(Refused):
        cluster_of(admin).led_offsets(P[:2], "latest")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoNodes]:
    with TwoNodes(tmp_path_factory.mktemp("nodes")) as nodes:
        yield nodes


@pytest.mark.storm
@pytest.mark.integration
def test_a_broker_that_is_down(nodes: TwoNodes) -> None:
    topic = create_on_nodes(nodes.servers, unique("split"), [1, 2])
    produce(nodes.servers, topic, [b"x"] * 3, 0)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with Cluster("source", {"bootstrap.servers": nodes.servers}, timeout=10.0) as cluster:
        assert cluster.offsets([first, second], "latest") == {first: 3, second: 0}
        nodes.down()
        found, missing = cluster.led_offsets([first, second], "stable", patience=10.0)
        assert found == {first: 3}
        assert missing.keys() == {second}
        with pytest.raises(NoLeader, match=f"no leader that answers for {second}: .*brokers are down"):
            cluster.leader_epochs([first, second])
        nodes.up()
        assert cluster.offsets([first, second], "latest") == {first: 3, second: 0}
