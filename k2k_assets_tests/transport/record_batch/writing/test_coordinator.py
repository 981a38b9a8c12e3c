"""The coordinator is found again when the first brokers are gone, and is not asked all the time when it is slow."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.record_batch.batches.packing import packed
from k2k_assets.transport.record_batch.errors import ConnectionLost
from k2k_assets.transport.record_batch.wire.primitives import NO_TAGS, array, text
from k2k_assets.transport.record_batch.wire.tasks import Loop, T, Task
from k2k_assets.transport.record_batch.writing import coordinator as module
from k2k_assets.transport.record_batch.writing.coordinator import TransactionCoordinator
from k2k_assets.transport.record_batch.writing.sink_settings import sink_settings_of
from k2k_assets.transport.record_batch.writing.transactional_producer import TransactionalProducer
from k2k_assets_tests.support.brokers import proxy as proxies
from k2k_assets_tests.support.brokers.kafka import SECONDS, create_topic, read_ended, unique
from k2k_assets_tests.support.brokers.proxy import Proxy

CONCURRENT_TRANSACTIONS, NOT_COORDINATOR, NONE = 51, 16, 0
TP = TopicPartition("to", 0)


class SlowCoordinator:
    """Answers by an error until so many seconds are over, on a clock that moves only while somebody waits.

    Without an error it breaks the connection for so long, whenever it is asked something.
    """

    def __init__(self, error: int | None, seconds: float) -> None:
        self.asked: list[float] = []
        self.now = 0.0
        self._error, self._seconds = error, seconds

    def ask(self, _api: int, _version: int, _body: bytes, read: Callable[[memoryview], T]) -> Task[T]:
        self.asked.append(self.now)
        error = self._error if self.now < self._seconds else NONE
        if error is None:
            raise ConnectionLost("the broker has closed the connection")
        partition = struct.pack(">ih", TP.partition, error) + NO_TAGS
        topic = text(TP.topic) + array([partition]) + NO_TAGS
        yield from ()
        return read(memoryview(struct.pack(">i", 0) + array([topic]) + NO_TAGS))

    def pause(self, seconds: float) -> Task[None]:
        self.now += seconds
        yield from ()


def _asked_until_joined(monkeypatch: pytest.MonkeyPatch, error: int | None, seconds: float) -> list[float]:
    slow = SlowCoordinator(error, seconds)

    def connected(_self: TransactionCoordinator, _deadline: Deadline) -> Task[SlowCoordinator]:
        yield from ()
        return slow

    monkeypatch.setattr(TransactionCoordinator, "_connected", connected)
    monkeypatch.setattr(module, "pause", slow.pause)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: slow.now))
    settings = sink_settings_of({"bootstrap.servers": "broker:1"}, SECONDS)
    coordinator = TransactionCoordinator(settings, "me", lambda: settings.connection.servers)
    coordinator.has_epoch_each = True
    Loop().complete(coordinator.join(ProducerIdentity(7, 2), [TP], Deadline(SECONDS)))
    return slow.asked


def test_a_transaction_that_is_about_to_end_is_asked_about_at_once_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _asked_until_joined(monkeypatch, CONCURRENT_TRANSACTIONS, 0.003)
    assert asked[:4] == pytest.approx([0.0, 0.0005, 0.001, 0.0015])
    assert asked[-1] < 0.004


@pytest.mark.parametrize("error", [CONCURRENT_TRANSACTIONS, NOT_COORDINATOR, None])
def test_what_takes_seconds_is_asked_about_less_and_less_often(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    asked = _asked_until_joined(monkeypatch, error, 3.0)
    assert 3.0 <= asked[-1] < 3.2
    assert len(asked) < 80, "and not thousands of times"


def test_what_no_waiting_ends_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Restart, match="adding to-0 to the transaction"):
        _asked_until_joined(monkeypatch, 999, 3.0)


@pytest.mark.integration
def test_brokers_that_are_known_by_now_tell_the_coordinator_too(
    clusters: KafkaSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that the settings name is gone."""
    monkeypatch.setattr(proxies, "WITH_ADDRESSES", frozenset())  # so brokers are asked directly once they are known
    topic = create_topic(clusters.target_servers, unique("to"))
    with Proxy(clusters.target_servers) as proxy:
        settings = sink_settings_of({"bootstrap.servers": proxy.servers}, SECONDS)
        producer = TransactionalProducer(settings, unique("id"), SECONDS)
        producer.open()
        producer.queue(TopicPartition(topic, 0), packed([(None, b"1", (), time.time_ns() // 1_000_000)]))
        producer.flush()
    producer._coordinator.close()
    producer.commit()
    producer.close()
    assert [record.value for record in read_ended(clusters.target_servers, topic)] == [b"1"]
