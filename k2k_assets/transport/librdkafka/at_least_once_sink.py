"""The at-least-once sink: data outside transactions, control records inside.

An idempotent producer writes the data; it never gives up on a record and never leaves a gap. After each flush, commit
and mapping records follow together in one small transaction under the slot's id, so that a superseded writer can commit
nothing. Records that it queued before may still arrive late, as duplicates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.interface import SINK_SECONDS, Delivery
from k2k_assets.transport.librdkafka.chunk_writer import ChunkWriter
from k2k_assets.transport.librdkafka.control_writer import TransactionalWriter
from k2k_assets.transport.librdkafka.data_producer import DataProducer
from k2k_assets.transport.librdkafka.deliveries import PendingDelivery, raise_errors
from k2k_assets.transport.librdkafka.report_mode import ReportMode


class AtLeastOnceSink(ChunkWriter):
    """Writes data with an idempotent producer, and control records in transactions.

    The data producer is kept from session to session: else records that it still holds could arrive after records that
    a new producer sends.

    Args:
        properties: The user's producer settings, librdkafka names.
        transactional_id: The slot's id, for the control transactions.
        report_mode: Decides how many delivery reports are asked for.
        data: The slot's data producer.
        timeout: Seconds that any step may take.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        transactional_id: str,
        report_mode: ReportMode,
        data: DataProducer,
        timeout: float = SINK_SECONDS,
    ) -> None:
        super().__init__(report_mode)
        self._control = TransactionalWriter(properties, transactional_id, timeout)
        self._data = data
        self._timeout = timeout
        self._begun = self._delivered = False

    def open(self) -> None:
        self._control.open()
        self._data.clear(self._timeout)

    def raise_epochs(
        self, former: Mapping[TopicPartition, ProducerIdentity | None]
    ) -> Mapping[TopicPartition, ProducerIdentity]:
        """Raises none: librdkafka gives itself a producer id, and tells nobody."""
        return {}

    def begin(self) -> None:
        """Does nothing: the control transaction begins with its first record, so that it stays short."""

    def _produce(self, chunk: Chunk, pending: PendingDelivery) -> None:
        self._data.produce(chunk, pending, self._timeout)

    def foresee(self) -> None:
        """Predicts nothing: outside transactions, records of a former owner may still arrive."""

    def settle(self) -> Sequence[Delivery]:
        deliveries = self._settle()
        self._delivered |= bool(deliveries)
        return deliveries

    def _drain(self, pending: Sequence[PendingDelivery]) -> None:
        try:
            self._data.drain(self._timeout)
        except Restart:
            self._ensure_accepted(pending)
            raise

    def _ensure_accepted(self, pending: Sequence[PendingDelivery]) -> None:
        raise_errors(pending)

    def write_control(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        if not self._begun:
            self._control.begin()
            self._begun = True
        self._control.write_control(topic, partition, key, value)

    def commit(self) -> None:
        if self._begun:
            self._control.commit()
            if self._delivered:
                self._report_mode.committed()
            self._begun = self._delivered = False

    def close(self) -> None:
        self._control.close()
