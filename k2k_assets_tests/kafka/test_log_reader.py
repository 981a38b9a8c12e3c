"""What comes along with an error is read again, never passed over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from k2k_assets.errors import ClusterUnreachable
from k2k_assets.kafka import clients
from k2k_assets.kafka.log_reader import LogReader
from k2k_assets.topic_partition import TopicPartition

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)


def _message(partition: int, offset: int, code: int | None = None) -> Any:
    error = None if code is None else KafkaError(code)
    return SimpleNamespace(topic=lambda: "t", partition=lambda: partition, offset=lambda: offset, error=lambda: error)


def test_nothing_advances_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = [_message(0, 5), _message(0, 7, KafkaError._PARTITION_EOF), _message(1, 3, KafkaError.OFFSET_OUT_OF_RANGE)]
    consumer = SimpleNamespace(consume=lambda count, timeout: batch, assign=lambda partitions: None)
    monkeypatch.setattr(clients, "consumer", lambda *settings: consumer)
    monkeypatch.setattr(clients, "know_cluster", lambda client, timeout: None)
    reader = LogReader({"bootstrap.servers": "b"}, {P: 5, Q: 3}, committed_only=True)
    with pytest.raises(ClusterUnreachable):
        reader.poll(0)
    assert reader.reached == {P: 5, Q: 3}
