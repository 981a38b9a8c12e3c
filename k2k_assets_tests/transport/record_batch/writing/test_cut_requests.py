"""Each request of a transaction, cut off on its way there and on its way back: every record is there once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.record_batch.batches.outgoing import OutgoingBatch
from k2k_assets.transport.record_batch.batches.packing import packed
from k2k_assets.transport.record_batch.writing.sink_settings import sink_settings_of
from k2k_assets.transport.record_batch.writing.transactional_producer import ENDING_SECONDS, TransactionalProducer
from k2k_assets_tests.support.brokers.kafka import create_topic, read_all, unique
from k2k_assets_tests.support.brokers.kafka_frames import Api, ends_in_commit
from k2k_assets_tests.support.brokers.proxy import Fault, Proxy, Trouble

pytestmark = pytest.mark.integration

TRANSACTIONS, RECORDS, ATTEMPTS = 4, 5, 4
STEP_SECONDS, SHORT_STEP_SECONDS = 30.0, 3.0
"""Of a producer: it has six attempts at a question in that time."""
ALWAYS, NEVER = 3600.0, 0.0
REQUESTS = [
    (Api.API_VERSIONS, ENDING_SECONDS),
    (Api.METADATA, ENDING_SECONDS),
    (Api.FIND_COORDINATOR, ENDING_SECONDS),
    (Api.INIT_PRODUCER_ID, ENDING_SECONDS),
    (Api.ADD_PARTITIONS_TO_TXN, ALWAYS),
    (Api.PRODUCE, ALWAYS),
    (Api.PRODUCE, NEVER),
    (Api.END_TXN, ALWAYS),
    (Api.END_TXN, NEVER),
]
ONCE = (Api.API_VERSIONS, Api.METADATA, Api.FIND_COORDINATOR, Api.INIT_PRODUCER_ID)
"""A session asks these once, or each connection does."""


def _one(value: bytes) -> OutgoingBatch:
    """Of now: brokers delete what is old."""
    return packed([(None, value, (), time.time_ns() // 1_000_000)])


class Copy:
    """Writes numbered records and how many there are, as a slot does: after any doubt it reads how far it got."""

    def __init__(
        self, clusters: KafkaSandbox, proxy: Proxy, ending_seconds: float, step_seconds: float = STEP_SECONDS
    ) -> None:
        self.servers = clusters.target_servers
        self.records = TopicPartition(create_topic(self.servers, unique("to"), 2), 1)
        self.positions = TopicPartition(create_topic(self.servers, unique("positions")), 0)
        self.restarts = 0
        self._id, self._ending_seconds, self._step_seconds = unique("id"), ending_seconds, step_seconds
        self._settings = sink_settings_of({"bootstrap.servers": proxy.servers}, step_seconds)

    def run(self) -> None:
        for _ in range(ATTEMPTS):
            producer = TransactionalProducer(self._settings, self._id, self._step_seconds, self._ending_seconds)
            with suppress(Restart):
                producer.open()
                self._go_on(producer)
                producer.close()
                return
            self.restarts += 1
            producer.close()
        raise AssertionError("it never came to its end")

    def _go_on(self, producer: TransactionalProducer) -> None:
        position = max(
            (int(record.value or b"0") for record in read_all(self.servers, self.positions.topic)), default=0
        )
        while position < TRANSACTIONS * RECORDS:
            for number in range(position, position + RECORDS):
                producer.queue(self.records, _one(b"%d" % number))
            position += RECORDS
            producer.queue(self.positions, _one(b"%d" % position))
            producer.commit()

    def written(self) -> list[int]:
        """The committed records, with all transactions ended."""
        last = TransactionalProducer(self._settings, self._id, STEP_SECONDS)
        last.open()
        last.close()
        return [int(record.value or b"") for record in read_all(self.servers, self.records.topic)]


@pytest.mark.parametrize("trouble", Trouble)
@pytest.mark.parametrize(("api", "ending_seconds"), REQUESTS)
def test_a_request_that_is_cut_off_costs_and_doubles_nothing(
    clusters: KafkaSandbox, api: Api, ending_seconds: float, trouble: Trouble
) -> None:
    step_seconds = SHORT_STEP_SECONDS if trouble is Trouble.DROPPED else STEP_SECONDS
    for occurrence in (1,) if api in ONCE else (1, 2, 3):
        with Proxy(clusters.target_servers) as proxy:
            copy = Copy(clusters, proxy, ending_seconds, step_seconds)
            fault = proxy.arm(Fault(api, trouble, occurrence, seconds=0.2))
            copy.run()
            assert fault.chosen.is_set()
            assert copy.written() == list(range(TRANSACTIONS * RECORDS))
            # Only what carries records begins a session anew.
            is_asked_again = api is not Api.PRODUCE or trouble is Trouble.DELAYED
            if trouble is not Trouble.DROPPED:  # then the time may be over on a slow machine
                assert copy.restarts == (0 if is_asked_again else 1)


@pytest.mark.parametrize("trouble", [Trouble.CUT, Trouble.LOST])
@pytest.mark.parametrize(("api", "ending_seconds"), REQUESTS)
def test_half_a_request_or_answer_is_none(
    clusters: KafkaSandbox, api: Api, ending_seconds: float, trouble: Trouble
) -> None:
    with Proxy(clusters.target_servers) as proxy:
        copy = Copy(clusters, proxy, ending_seconds)
        fault = proxy.arm(Fault(api, trouble, 1 if api in ONCE else 2, by_half=True))
        copy.run()
        assert fault.chosen.is_set()
        assert copy.written() == list(range(TRANSACTIONS * RECORDS))
        assert copy.restarts == (1 if api is Api.PRODUCE else 0)


def test_no_request_with_records_is_sent_twice(clusters: KafkaSandbox) -> None:
    with Proxy(clusters.target_servers) as proxy:
        copy = Copy(clusters, proxy, NEVER)
        proxy.arm(Fault(Api.PRODUCE, Trouble.CUT, 3))
        copy.run()
        assert copy.restarts == 1
        sent = [request.frame[16:] for request in proxy.seen(Api.PRODUCE)]
        assert len(sent) == len(set(sent)) > TRANSACTIONS


def test_a_stray_copy_of_a_commit_ends_no_later_transaction(clusters: KafkaSandbox) -> None:
    with Proxy(clusters.target_servers) as proxy:
        settings = sink_settings_of({"bootstrap.servers": proxy.servers}, STEP_SECONDS)
        topic = create_topic(clusters.target_servers, unique("to"))
        producer = TransactionalProducer(settings, unique("id"), STEP_SECONDS)
        producer.open()
        fault = proxy.arm(Fault(Api.END_TXN, Trouble.LOST))
        producer.queue(TopicPartition(topic, 0), _one(b"first"))
        producer.commit()
        producer.queue(TopicPartition(topic, 0), _one(b"half"))
        producer.flush()
        proxy.let_through(fault)
        assert [record.value for record in read_all(clusters.target_servers, topic)] == [b"first"]
        producer.queue(TopicPartition(topic, 0), _one(b"whole"))
        producer.commit()
        producer.close()
    values = [record.value for record in read_all(clusters.target_servers, topic)]
    assert values in ([b"first"], [b"first", b"half", b"whole"])


def test_a_target_that_does_not_answer_is_given_up_in_time(clusters: KafkaSandbox) -> None:
    with Proxy(clusters.target_servers) as proxy:
        settings = sink_settings_of({"bootstrap.servers": proxy.servers}, SHORT_STEP_SECONDS)
        topic = create_topic(clusters.target_servers, unique("to"))
        producer = TransactionalProducer(settings, unique("id"), SHORT_STEP_SECONDS)
        producer.open()
        proxy.arm(Fault(Api.PRODUCE, Trouble.DROPPED))
        producer.queue(TopicPartition(topic, 0), _one(b"value"))
        with pytest.raises(Restart, match="did not take"):
            producer.commit()
        with pytest.raises(Restart):
            producer.queue(TopicPartition(topic, 0), _one(b"more"))
        producer.close()
    assert read_all(clusters.target_servers, topic) == []


@pytest.fixture(scope="module")
def older() -> Iterator[KafkaSandbox]:
    """Brokers whose transactions share an epoch."""
    with KafkaSandbox(version="3.9.2") as found:
        yield found


@pytest.mark.slow
def test_where_transactions_share_an_epoch_nothing_at_all_is_sent_twice(older: KafkaSandbox) -> None:
    for api in (Api.ADD_PARTITIONS_TO_TXN, Api.PRODUCE, Api.END_TXN):
        for trouble in (Trouble.CUT, Trouble.LOST, Trouble.DELAYED):
            for occurrence in (1, 3):
                with Proxy(older.target_servers) as proxy:
                    copy = Copy(older, proxy, ENDING_SECONDS)
                    fault = proxy.arm(Fault(api, trouble, occurrence, seconds=0.2))
                    copy.run()
                    assert fault.chosen.is_set()
                    assert copy.written() == list(range(TRANSACTIONS * RECORDS))
                    assert copy.restarts == (0 if trouble is Trouble.DELAYED else 1)
                    commits = [each.frame[12:] for each in proxy.seen(Api.END_TXN) if ends_in_commit(each)]
                    # Transactions of one session cannot be told apart; a lost commit is followed by another session.
                    assert len(commits) == TRANSACTIONS + (api == Api.END_TXN and trouble is Trouble.LOST)
