"""Writes control records in transactions, as batches."""

from __future__ import annotations

import time

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.interface import SINK_SECONDS
from k2k_assets.transport.record_batch.batches.codecs import LZ4
from k2k_assets.transport.record_batch.batches.packing import Record, packed
from k2k_assets.transport.record_batch.wire.tasks import Loop
from k2k_assets.transport.record_batch.writing.sink_settings import SinkSettings
from k2k_assets.transport.record_batch.writing.transactional_producer import TransactionalProducer

# Half of what a topic takes by default. Each record has a few bytes of its own.
_BATCH_BYTES = 500_000
_RECORD_BYTES = 32
# Less is not worth compressing.
_COMPRESSED_FROM = 1024


class BatchControlWriter:
    """Writes control records in transactions; those of one partition go as one batch.

    Args:
        settings: How brokers are connected to.
        transactional_id: The id of the transactions.
        timeout: Seconds that any step may take.
        loops: As of `BatchProducer`.
    """

    def __init__(
        self,
        settings: SinkSettings,
        transactional_id: str,
        timeout: float = SINK_SECONDS,
        loops: list[Loop] | None = None,
    ) -> None:
        self._producer = TransactionalProducer(settings, transactional_id, timeout, loops=loops)
        self._codec = settings.packing.codec
        self._controls: dict[TopicPartition, list[Record]] = {}

    def open(self) -> None:
        self._producer.open()

    def begin(self) -> None:
        """Does nothing: the transaction begins with its first records."""

    def write_control(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        now = time.time_ns() // 1_000_000
        self._controls.setdefault(TopicPartition(topic, partition), []).append((key, value, (), now))

    def commit(self) -> None:
        self._queue_controls()
        self._producer.commit()

    def close(self) -> None:
        self._producer.close()

    def _queue_controls(self) -> None:
        controls, self._controls = self._controls, {}
        for tp, records in controls.items():
            batch: list[Record] = []
            size = 0
            for record in records:
                weight = _size(record)
                if batch and size + weight > _BATCH_BYTES:
                    self._queue_records(tp, batch, size)
                    batch, size = [], 0
                batch.append(record)
                size += weight
            self._queue_records(tp, batch, size)

    def _queue_records(self, tp: TopicPartition, records: list[Record], size: int) -> None:
        codec = self._codec
        if codec is None:
            codec = LZ4 if size >= _COMPRESSED_FROM else 0
        self._producer.queue(tp, packed(records, codec))


def _size(record: Record) -> int:
    key, value, _, _ = record
    return _RECORD_BYTES + len(key or b"") + len(value or b"")
