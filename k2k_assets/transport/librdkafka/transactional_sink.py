"""The exactly-once sink: data and control records in one transaction of one librdkafka producer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.errors import Restart, Undeliverable
from k2k_assets.transport.foresight import Foresight
from k2k_assets.transport.interface import SINK_SECONDS, Delivery
from k2k_assets.transport.librdkafka.chunk_writer import ChunkWriter
from k2k_assets.transport.librdkafka.control_writer import TransactionalWriter
from k2k_assets.transport.librdkafka.deliveries import PendingDelivery, produce_chunk, raise_errors
from k2k_assets.transport.librdkafka.producers import flush
from k2k_assets.transport.librdkafka.report_mode import ReportMode
from k2k_assets.transport.producer_calls import call


class TransactionalSink(ChunkWriter, TransactionalWriter):
    """The exactly-once sink.

    Args:
        properties: The user's producer settings, librdkafka names.
        transactional_id: The slot's id.
        report_mode: Decides how many delivery reports are asked for, and whether offsets are predicted.
        timeout: Seconds that any step may take.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        transactional_id: str,
        report_mode: ReportMode,
        timeout: float = SINK_SECONDS,
    ) -> None:
        TransactionalWriter.__init__(self, properties, transactional_id, timeout)
        ChunkWriter.__init__(self, report_mode)
        self._foresight = Foresight()
        self._foreseen: list[Delivery] | None = None
        self._delivered: list[Delivery] = []

    def raise_epochs(
        self, former: Mapping[TopicPartition, ProducerIdentity | None]
    ) -> Mapping[TopicPartition, ProducerIdentity]:
        """Raises none: transactions fence."""
        return {}

    def _produce(self, chunk: Chunk, pending: PendingDelivery) -> None:
        call(f"producing to {chunk.target_topic}", produce_chunk, self._producer, chunk, pending, self._timeout)

    def foresee(self) -> Sequence[Delivery] | None:
        if self._report_mode.foresees and not self._report_mode.report_each:
            self._foreseen = self._foresight.of(pending.sent for pending in self._pending)
        return self._foreseen

    def settle(self) -> Sequence[Delivery]:
        self._delivered = self._settle()
        self._foresight.learn(self._delivered)
        return self._delivered

    def _drain(self, pending: Sequence[PendingDelivery]) -> None:
        flush(self._producer, self._timeout, lambda: self._ensure_accepted(pending))

    def _results(self, pending: Sequence[PendingDelivery], aside: Sequence[PendingDelivery]) -> list[Delivery]:
        try:
            return super()._results(pending, aside)
        except Undeliverable as refusal:
            if not refusal.final:
                self._ensure_allowed(self._failure())
            raise

    def commit(self) -> None:
        if self._foreseen is not None and self._foreseen != self._delivered:
            self._report_mode.was_mistaken()
            raise Restart("the records did not go where the mapping says: they are copied again, without foresight")
        super().commit()
        if self._delivered:
            self._report_mode.committed()
        self._foreseen, self._delivered = None, []

    def _ensure_accepted(self, pending: Sequence[PendingDelivery]) -> None:
        # Also asked while the queue drains: the records behind a refused one would wait for their time-out.
        error = self._failure()
        if error is not None and pending:
            self._ensure_allowed(error)
            self._producer.poll(0)
            raise_errors(pending)
            raise Undeliverable(pending[0].sent, None, 0, error.str(), final=False)
