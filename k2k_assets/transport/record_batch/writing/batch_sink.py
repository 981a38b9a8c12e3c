"""The exactly-once sink that writes whole batches: data and control records in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.foresight import Foresight
from k2k_assets.transport.interface import SINK_SECONDS, Delivery
from k2k_assets.transport.record_batch.wire.tasks import Loop
from k2k_assets.transport.record_batch.writing.batch_chunk_writer import BatchChunkWriter
from k2k_assets.transport.record_batch.writing.batch_control_writer import BatchControlWriter
from k2k_assets.transport.record_batch.writing.pending_chunk import QueuedBatch
from k2k_assets.transport.record_batch.writing.sink_settings import SinkSettings
from k2k_assets.transport.record_batch.writing.slot_tactics import SlotTactics


class BatchSink(BatchChunkWriter, BatchControlWriter):
    """The exactly-once sink.

    Args:
        settings: How brokers are connected to, and how batches are written.
        transactional_id: The slot's id.
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
        BatchControlWriter.__init__(self, settings, transactional_id, timeout, loops)
        BatchChunkWriter.__init__(self, settings, tactics)
        self._foresight = Foresight()
        self._foreseen: list[Delivery] | None = None
        self._delivered: list[Delivery] = []

    def raise_epochs(
        self, former: Mapping[TopicPartition, ProducerIdentity | None]
    ) -> Mapping[TopicPartition, ProducerIdentity]:
        """Raises none: transactions fence."""
        return {}

    def _queue_all(self, source: TopicPartition, tp: TopicPartition, batches: Sequence[QueuedBatch]) -> None:
        self._producer.queue_all(tp, batches)

    def _partition_count(self, topic: str) -> int:
        return self._producer.partition_count(topic)

    def foresee(self) -> Sequence[Delivery] | None:
        if self._tactics.foresees:
            self._foreseen = self._foresight.of(pending.sent for pending in self._pending)
        return self._foreseen

    def settle(self) -> Sequence[Delivery]:
        with self._learning_of_refusals():
            self._queue_controls()
            self._producer.flush()
        self._delivered = self._taken()
        self._foresight.learn(self._delivered)
        return self._delivered

    def commit(self) -> None:
        if self._foreseen is not None and self._foreseen != self._delivered:
            self._tactics.was_mistaken()
            raise Restart("the records did not go where the mapping says: they are copied again, without foresight")
        with self._learning_of_refusals():
            super().commit()
        if self._delivered:
            self._tactics.committed()
        self._foreseen, self._delivered = None, []
