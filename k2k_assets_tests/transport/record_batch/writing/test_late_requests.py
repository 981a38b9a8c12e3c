"""Outside transactions: a request that was on its way for long is refused once there are records of a later epoch."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest

from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.chunk import Chunk, Sent
from k2k_assets.transport.errors import Fenced, Restart, Undeliverable
from k2k_assets.transport.record_batch.batches.packing import packed
from k2k_assets.transport.record_batch.writing.idempotent_producer import IdempotentProducer
from k2k_assets.transport.record_batch.writing.pending_chunk import PendingChunk
from k2k_assets.transport.record_batch.writing.sink_settings import sink_settings_of
from k2k_assets_tests.support.brokers.kafka import SECONDS, create_topic, read_all, unique
from k2k_assets_tests.support.brokers.kafka_frames import Api
from k2k_assets_tests.support.brokers.proxy import Fault, Proxy, Trouble
from k2k_assets_tests.support.memory.fake_records import ListRecords

pytestmark = pytest.mark.integration

A, B = TopicPartition("a", 0), TopicPartition("b", 3)


@contextmanager
def _producer(servers: str) -> Iterator[IdempotentProducer]:
    producer = IdempotentProducer(sink_settings_of({"bootstrap.servers": servers}, SECONDS), SECONDS)
    try:
        yield producer
    finally:
        producer.close()


def _write(producer: IdempotentProducer, target: TopicPartition, source: TopicPartition, values: Iterable[int]) -> None:
    for value in values:
        record = (None, b"%d" % value, (), time.time_ns() // 1_000_000)
        sent = Sent(Chunk(source, ListRecords([value]), target.topic, target.partition))
        producer.queue_all(source, target, PendingChunk(sent).queued(target.partition, range(1), [packed([record])]))
    producer.flush()


def _values(clusters: KafkaSandbox, topic: str) -> list[int]:
    return [int(record.value or b"") for record in read_all(clusters.target_servers, topic)]


@pytest.fixture
def target(clusters: KafkaSandbox) -> TopicPartition:
    return TopicPartition(create_topic(clusters.target_servers, unique("to")), 0)


@pytest.mark.parametrize("knows_the_former", [True, False])
def test_a_request_of_a_former_owner_comes_too_late(
    clusters: KafkaSandbox, target: TopicPartition, knows_the_former: bool
) -> None:
    """Under a producer id of its own the next owner does not keep it away."""
    with Proxy(clusters.target_servers) as proxy, _producer(proxy.servers) as former:
        known = former.raise_epochs({A: None})
        _write(former, target, A, range(5))
        straying = proxy.arm(Fault(Api.PRODUCE, Trouble.LOST))
        with pytest.raises(Restart):
            _write(former, target, A, range(5, 10))
        with _producer(clusters.target_servers) as following:
            following.raise_epochs(known if knows_the_former else {A: None})
            _write(following, target, A, range(5, 15))
        proxy.let_through(straying)
    late = [] if knows_the_former else [5]
    assert _values(clusters, target.topic) == [*range(15), *late]


def test_who_was_frozen_with_records_in_hand_is_fenced(clusters: KafkaSandbox, target: TopicPartition) -> None:
    servers = clusters.target_servers
    with _producer(servers) as former, _producer(servers) as following:
        known = former.raise_epochs({A: None})
        _write(former, target, A, range(5))
        following.raise_epochs(known)
        _write(following, target, A, range(5, 10))
        with pytest.raises(Fenced):
            _write(former, target, A, range(5, 7))
    assert _values(clusters, target.topic) == [*range(10)]


def test_nothing_is_taken_behind_a_first_record_that_is_refused(clusters: KafkaSandbox) -> None:
    """A broker that knows nothing of a producer takes any sequence, so the first batch is sent alone."""
    topic = create_topic(clusters.target_servers, unique("to"), config={"max.message.bytes": "2000"})
    with _producer(clusters.target_servers) as producer:
        producer.raise_epochs({A: None})
        for number, size in enumerate((3000, 1, 1, 1)):
            sent = Sent(Chunk(A, ListRecords([number]), topic, 0))
            record = (None, bytes(size), (), time.time_ns() // 1_000_000)
            queued = PendingChunk(sent).queued(0, range(1), [packed([record])])
            producer.queue_all(A, TopicPartition(topic, 0), queued)
        with pytest.raises(Undeliverable):
            producer.flush()
    with _producer(clusters.target_servers) as following:  # behind whatever was under way
        _write(following, TopicPartition(topic, 0), A, [7])
    assert [record.value for record in read_all(clusters.target_servers, topic)] == [b"7"]


def test_two_owners_of_one_epoch_would_lose_records(clusters: KafkaSandbox, target: TopicPartition) -> None:
    """That is why an epoch is committed before the first record under it."""
    servers = clusters.target_servers
    with _producer(servers) as former, _producer(servers) as following:
        known = former.raise_epochs({A: None})
        assert former.raise_epochs(known) == following.raise_epochs(known)
        _write(former, target, A, range(3))
        _write(following, target, A, range(10, 13))
    assert _values(clusters, target.topic) == [0, 1, 2]


def test_sources_that_share_a_target_partition_count_apart(clusters: KafkaSandbox, target: TopicPartition) -> None:
    servers, other = clusters.target_servers, TopicPartition("to", 1)
    with _producer(servers) as first, _producer(servers) as second:
        known = first.raise_epochs({A: None, B: None, other: None})
        assert len({identity.producer_id for identity in known.values()}) == 3
        for source, start in ((A, 0), (B, 100), (other, 200)):
            _write(first, target, source, range(start, start + 5))
        # The next owners of each are two: they write side by side.
        first.raise_epochs({A: known[A]})
        second.raise_epochs({B: known[B], other: known[other]})
        for n in range(5, 10):
            _write(second, target, B, [100 + n])
            _write(second, target, other, [200 + n])
    found = _values(clusters, target.topic)
    for start, count in ((0, 5), (100, 10), (200, 10)):
        assert [value for value in found if start <= value < start + 100] == [*range(start, start + count)]


def test_another_producer_id_begins_when_the_epochs_are_used_up(clusters: KafkaSandbox, target: TopicPartition) -> None:
    with _producer(clusters.target_servers) as producer:
        (given,) = producer.raise_epochs({A: None}).values()
        last = producer.raise_epochs({A: ProducerIdentity(given.producer_id, 32_766)})
        assert last == {A: (given.producer_id, 32_767)}
        _write(producer, target, A, range(3))
    with _producer(clusters.target_servers) as producer:
        (other,) = producer.raise_epochs(last).values()
        assert other.epoch == 0
        assert other.producer_id != given.producer_id
        _write(producer, target, A, range(3, 6))
    assert _values(clusters, target.topic) == [*range(6)]


def test_many_ids_are_asked_for_at_once_also_from_a_broker_that_goes(clusters: KafkaSandbox) -> None:
    sources = {TopicPartition("many", n): None for n in range(200)}
    with Proxy(clusters.target_servers) as proxy, _producer(proxy.servers) as producer:
        fault = proxy.arm(Fault(Api.INIT_PRODUCER_ID, Trouble.CUT, occurrence=100))
        given = producer.raise_epochs(sources)
        assert fault.chosen.is_set()
    assert len({identity.producer_id for identity in given.values()}) == len(sources)
