"""What the sink does where the producer cannot take a record now."""

from __future__ import annotations

import pytest

from k2k_assets.transport.errors import Restart
from k2k_assets.transport.librdkafka import control_writer
from k2k_assets.transport.librdkafka.control_writer import TransactionalWriter


class FullProducer:
    """Its queue is full of data until it was polled so often."""

    def __init__(self, polls: int) -> None:
        self.taken: list[bytes] = []
        self._polls = polls

    def produce(self, topic: str, value: bytes, key: bytes, partition: int) -> None:
        if self._polls > 0:
            raise BufferError("Local: Queue full")
        self.taken.append(key)

    def poll(self, timeout: float) -> int:
        self._polls -= 1
        return 0

    def __len__(self) -> int:
        return 200_000


@pytest.mark.parametrize("polls", [0, 3])
def test_a_control_record_waits_for_room_in_the_queue(monkeypatch: pytest.MonkeyPatch, polls: int) -> None:
    """It is queued right behind the records of a transaction, which may fill the queue."""
    producer = FullProducer(polls)
    monkeypatch.setattr(control_writer, "transactional_producer", lambda *_: producer)
    TransactionalWriter({}, "id").write_control("commits", 0, b"key", b"value")
    assert producer.taken == [b"key"]


def test_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_writer, "transactional_producer", lambda *_: FullProducer(10**9))
    with pytest.raises(Restart, match="the target did not take one of 200000 records"):
        TransactionalWriter({}, "id", timeout=0.01).write_control("commits", 0, b"key", b"value")
