"""The at-least-once sink that writes whole batches: data outside transactions, control records inside.

After each flush, commit and mapping records follow together in one small transaction under the slot's id, so that a
superseded writer can commit nothing. What it had sent before is refused as soon as its successor has written to the
same partition, because that one writes under the same producer id with a later epoch (`idempotent_producer.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.interface import SINK_SECONDS, Delivery
from k2k_assets.transport.record_batch.wire.tasks import Loop
from k2k_assets.transport.record_batch.writing.batch_chunk_writer import BatchChunkWriter
from k2k_assets.transport.record_batch.writing.batch_control_writer import BatchControlWriter
from k2k_assets.transport.record_batch.writing.idempotent_producer import IdempotentProducer
from k2k_assets.transport.record_batch.writing.pending_chunk import QueuedBatch
from k2k_assets.transport.record_batch.writing.sink_settings import SinkSettings
from k2k_assets.transport.record_batch.writing.slot_tactics import SlotTactics


class AtLeastOnceBatchSink(BatchChunkWriter):
    """Writes data with an idempotent producer, and control records in transactions.

    Args:
        settings: How brokers are connected to, and how batches are written.
        transactional_id: The slot's id, for the control transactions.
        tactics: What the slot has learned.
        timeout: Seconds that any step may take.
        loops: As of `BatchProducer`.
    """

    def __init__(
        self,
        settings: SinkSettings,
        transactional_id: str,
        tactics: SlotTactics,
        timeout: float = SINK_SECONDS,
        loops: list[Loop] | None = None,
    ) -> None:
        super().__init__(settings, tactics)
        self._control = BatchControlWriter(settings, transactional_id, timeout, loops)
        self._data = IdempotentProducer(settings, timeout, loops)
        self._has_delivered = False

    def open(self) -> None:
        self._control.open()

    def raise_epochs(
        self, former: Mapping[TopicPartition, ProducerIdentity | None]
    ) -> Mapping[TopicPartition, ProducerIdentity]:
        return self._data.raise_epochs(former)

    def begin(self) -> None:
        """Does nothing: the control transaction begins with its first record, so that it stays short."""

    def foresee(self) -> None:
        """Predicts nothing: the control transaction is written when all records are on the target."""

    def settle(self) -> Sequence[Delivery]:
        with self._learning_of_refusals():
            self._data.flush()
        deliveries = self._taken()
        self._has_delivered |= bool(deliveries)
        return deliveries

    def write_control(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        self._control.write_control(topic, partition, key, value)

    def commit(self) -> None:
        self._control.commit()
        if self._has_delivered:
            self._tactics.committed()
        self._has_delivered = False

    def close(self) -> None:
        self._data.close()
        self._control.close()

    def _queue_all(self, source: TopicPartition, tp: TopicPartition, batches: Sequence[QueuedBatch]) -> None:
        self._data.queue_all(source, tp, batches)

    def _partition_count(self, topic: str) -> int:
        return self._data.partition_count(topic)
