"""A broker that is slow to confirm the end of a transaction: the next one waits for it, and nothing is refused."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.record_batch.batches.outgoing import OutgoingBatch
from k2k_assets.transport.record_batch.batches.packing import packed
from k2k_assets.transport.record_batch.writing import ending_time
from k2k_assets.transport.record_batch.writing.sink_settings import sink_settings_of
from k2k_assets.transport.record_batch.writing.target_partitions import TargetPartition
from k2k_assets.transport.record_batch.writing.transactional_producer import ENDING_SECONDS, TransactionalProducer
from k2k_assets.transport.record_batch.writing.write_errors import CONCURRENT_TRANSACTIONS
from k2k_assets_tests.support.brokers.kafka import SECONDS, produce, read_ended, unique
from k2k_assets_tests.support.brokers.kafka_frames import Api
from k2k_assets_tests.support.brokers.proxy import Fault, Trouble
from k2k_assets_tests.support.brokers.second_node import TwoNodes, create_on_nodes

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SLOW_SECONDS = 0.6
"""Longer than a broker holds records back."""


def _one(value: bytes) -> OutgoingBatch:
    return packed([(None, value, (), time.time_ns() // 1_000_000)])


def _two_transactions(nodes: TwoNodes, slow_seconds: float = SLOW_SECONDS) -> list[bytes]:
    """Of which the second follows when the first is committed, and not ended yet; returns the committed records."""
    topic = create_on_nodes(nodes.servers, unique("to"), [1, 2])
    for partition in (0, 1):  # then its leaders are at work
        produce(nodes.servers, topic, [b"before"], partition)
    settings = sink_settings_of({"bootstrap.servers": nodes.servers}, SECONDS)
    producer = TransactionalProducer(settings, unique("id"), SECONDS)
    try:
        producer.open()
        for partition in (0, 1):
            producer.queue(TopicPartition(topic, partition), _one(b"%d" % partition))
        producer.flush()
        slow = nodes.proxy.arm(Fault(Api.WRITE_TXN_MARKERS, Trouble.DELAYED, seconds=slow_seconds))
        producer.commit()
        assert slow.happened.wait(SECONDS)
        time.sleep(2 * ENDING_SECONDS)  # the next records come a little later
        producer.queue(TopicPartition(topic, 0), _one(b"next"))
        producer.commit()
    finally:
        producer.close()
    return sorted(record.value or b"" for record in read_ended(nodes.servers, topic))


def _seen_refusals(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The errors of what goes again, as they come."""
    refused: list[int] = []
    take_back = TargetPartition.take_back

    def seen(partition: TargetPartition) -> None:
        refused.append(partition.error)
        take_back(partition)

    monkeypatch.setattr(TargetPartition, "take_back", seen)
    return refused


def test_records_that_come_before_the_transaction_before_is_ended_end_no_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TwoNodes(tmp_path, through_proxy=True) as nodes:
        assert _two_transactions(nodes) == [b"0", b"1", b"before", b"before", b"next"]
        # Records that join at once are refused after a tenth of a second, and go again.
        monkeypatch.setattr(ending_time, "_AT_FIRST", 1)
        refused = _seen_refusals(monkeypatch)
        assert _two_transactions(nodes, 5 * SLOW_SECONDS) == [b"0", b"1", b"before", b"before", b"next"]
        assert CONCURRENT_TRANSACTIONS in refused
