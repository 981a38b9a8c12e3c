"""Records that arrive with an error are read again, never skipped."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka import clients
from k2k_assets.kafka import log_reader as module
from k2k_assets.kafka.log_reader import LogReader, NotReadToTheEnd

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)


def _message(partition: int, offset: int, code: int | None = None) -> Any:
    error = None if code is None else KafkaError(code)
    return SimpleNamespace(topic=lambda: "t", partition=lambda: partition, offset=lambda: offset, error=lambda: error)


def played(monkeypatch: pytest.MonkeyPatch, batches: list[list[Any]]) -> list[dict[TopicPartition, int]]:
    """Clients that hand out batches, one after the other; returns where each of them begins."""
    begun: list[dict[TopicPartition, int]] = []

    def assign(partitions: Any) -> None:
        begun.append({TopicPartition(at.topic, at.partition): at.offset for at in partitions})

    def consume(*_: Any) -> list[Any]:
        return batches.pop(0) if batches else []

    consumer = SimpleNamespace(consume=consume, assign=assign, poll=lambda timeout: None, close=lambda: None)
    monkeypatch.setattr(clients, "consumer", lambda *settings: consumer)
    monkeypatch.setattr(clients, "know_cluster", lambda client, timeout: None)
    return begun


def test_nothing_advances_with_an_error_and_another_client_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that reported it has given the partition up."""
    end_of_p = _message(0, 7, KafkaError._PARTITION_EOF)
    batches = [[end_of_p, _message(1, 3, KafkaError.OFFSET_OUT_OF_RANGE)], [end_of_p]]
    clients_of_it = played(monkeypatch, batches)
    reader = LogReader({"bootstrap.servers": "b"}, {P: 5, Q: 3}, committed_only=True)
    with pytest.raises(ClusterUnreachable):
        reader.poll(0)
    assert reader.reached == {P: 5, Q: 3}
    reader.poll(0)
    assert reader.reached == {P: 7, Q: 3}
    assert clients_of_it == [{P: 5, Q: 3}] * 2


def test_an_error_names_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch, [[_message(0, 3, KafkaError.OFFSET_OUT_OF_RANGE)]])
    reader = LogReader({"bootstrap.servers": "b"}, {P: 5}, committed_only=True, role="source")
    with pytest.raises(ClusterUnreachable, match="the source cluster at b"):
        reader.poll(0)


def test_one_error_after_the_other_makes_no_client_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RENEW_SECONDS", 0.2)
    clients_of_it = played(monkeypatch, [[_message(0, 3, KafkaError.OFFSET_OUT_OF_RANGE)] for _ in range(3)])
    reader = LogReader({"bootstrap.servers": "b"}, {P: 5}, committed_only=True)
    for _ in range(2):
        with pytest.raises(ClusterUnreachable):
            reader.poll(0)
    assert reader.poll(0) == []
    assert len(clients_of_it) == 2
    with pytest.raises(ClusterUnreachable):
        reader.poll(0.5)
    assert len(clients_of_it) == 3


def test_a_client_that_stands_still_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was cut off at the wrong moment may never find its brokers again."""
    clients_of_it = played(monkeypatch, [[], [_message(0, 6, KafkaError._PARTITION_EOF)]])
    reader = LogReader({"bootstrap.servers": "b"}, {P: 5}, committed_only=True)
    with pytest.raises(NotReadToTheEnd):
        list(reader.read_until({P: 6}, Deadline(0)))
    assert list(reader.read_until({P: 6}, Deadline(10))) == [[]]
    assert clients_of_it == [{P: 5}] * 2


def test_one_that_follows_is_replaced_only_if_there_is_something_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    clients_of_it = played(monkeypatch, [[], [_message(0, 6, KafkaError._PARTITION_EOF)]])
    reader = LogReader({"bootstrap.servers": "b"}, {P: 5}, committed_only=True, follow=True)
    reader.doubt_if_behind({P: 5})
    reader.poll(0)
    assert clients_of_it == [{P: 5}]
    reader.doubt_if_behind({P: 6})
    reader.poll(0)
    assert clients_of_it == [{P: 5}] * 2
    assert reader.reached == {P: 6}
