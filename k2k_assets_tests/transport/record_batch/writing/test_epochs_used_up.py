"""Each transaction takes an epoch: after 32,767 of them, minutes at full speed, the producer id is another one."""

from __future__ import annotations

import time

import pytest

from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.record_batch.batches.outgoing import OutgoingBatch
from k2k_assets.transport.record_batch.batches.packing import packed
from k2k_assets.transport.record_batch.wire import transaction_messages as messages
from k2k_assets.transport.record_batch.wire.connection import BrokerConnection
from k2k_assets.transport.record_batch.wire.control_messages import INIT_PRODUCER_ID
from k2k_assets.transport.record_batch.wire.request_pipeline import BrokerRequest, RequestPipeline
from k2k_assets.transport.record_batch.wire.settings import settings_of
from k2k_assets.transport.record_batch.wire.tasks import Loop
from k2k_assets.transport.record_batch.writing.sink_settings import sink_settings_of
from k2k_assets.transport.record_batch.writing.transactional_producer import TransactionalProducer
from k2k_assets_tests.support.brokers.kafka import SECONDS, create_topic, read_all, unique
from k2k_assets_tests.support.brokers.kafka_frames import Api
from k2k_assets_tests.support.brokers.proxy import Fault, Proxy, Trouble

pytestmark = [pytest.mark.integration, pytest.mark.storm]

LAST_EPOCH = 32_766
"""Under which there are records; brokers keep the one behind it for themselves."""
PARTITIONS = (0, 1)


class Fencings:
    """Claims a transactional id so many times, each of which takes an epoch.

    Attributes:
        identity: What the last answer said.
    """

    not_before = 0.0

    def __init__(self, transactional_id: str, count: int) -> None:
        self.identity = ProducerIdentity(-1, -1)
        self.answers, self.count = 0, count
        self._asked = 0
        self._body = messages.init_producer_id(transactional_id, 60_000)

    def has_request(self) -> bool:
        return self._asked < self.count

    def next_request(self) -> BrokerRequest:
        self._asked += 1
        return BrokerRequest(INIT_PRODUCER_ID, 4, [self._body], len(self._body), self._take)

    def _take(self, answer: memoryview) -> None:
        error, self.identity = messages.read_init_producer_id(answer)
        assert not error
        self.answers += 1


def _take_epochs(servers: str, transactional_id: str, count: int) -> ProducerIdentity:
    settings = settings_of({"bootstrap.servers": servers})
    connection, loop = BrokerConnection(settings.servers[0], settings), Loop()
    fencings = Fencings(transactional_id, count)
    loop.complete(connection.open())
    loop.start(RequestPipeline(connection, fencings).run())
    loop.run(10 * SECONDS, lambda: fencings.answers == count)
    loop.stop()
    connection.close()
    return fencings.identity


def _one(value: bytes) -> OutgoingBatch:
    return packed([(None, value, (), time.time_ns() // 1_000_000)])


def test_another_producer_id_goes_on_also_if_that_answer_is_lost(clusters: KafkaSandbox) -> None:
    servers, transactional_id = clusters.target_servers, unique("id")
    topic = create_topic(servers, unique("to"), len(PARTITIONS))
    with Proxy(servers) as proxy:
        settings = sink_settings_of({"bootstrap.servers": proxy.servers}, SECONDS)
        first = TransactionalProducer(settings, transactional_id, SECONDS)
        first.open()
        first.close()
        producer_id, epoch = first.identity
        before = LAST_EPOCH - 2
        assert _take_epochs(servers, transactional_id, before - epoch) == (producer_id, before)

        producer = TransactionalProducer(settings, transactional_id, SECONDS)
        producer.open()
        identities = [producer.identity]
        fault = proxy.arm(Fault(Api.END_TXN, Trouble.CUT, occurrence=2))
        for number in range(4):
            for partition in PARTITIONS:
                producer.queue(TopicPartition(topic, partition), _one(b"%d" % number))
            producer.commit()
            identities.append(producer.identity)
        other = producer.identity.producer_id
        assert fault.chosen.is_set()
        assert identities[:2] == [(producer_id, LAST_EPOCH - 1), (producer_id, LAST_EPOCH)]
        assert other != producer_id
        assert identities[2:] == [(other, 0), (other, 1), (other, 2)]

        producer.queue(TopicPartition(topic, 0), _one(b"half"))
        producer.flush()
        proxy.let_through(fault)
        for partition in PARTITIONS:
            found = [record.value for record in read_all(servers, topic) if record.partition == partition]
            assert found == [b"0", b"1", b"2", b"3"]
        producer.close()
