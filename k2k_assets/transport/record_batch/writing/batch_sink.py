"""The exactly-once sink that writes whole batches: data and control records in one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.chunk import Chunk, Sent
from k2k_assets.transport.errors import Restart, RetryAtOnce, Undeliverable
from k2k_assets.transport.foresight import Foresight
from k2k_assets.transport.interface import SINK_SECONDS, Delivery
from k2k_assets.transport.record_batch.batches.rewriting import outgoing_of
from k2k_assets.transport.record_batch.writing.batch_control_writer import BatchControlWriter
from k2k_assets.transport.record_batch.writing.partitioner import partition_of
from k2k_assets.transport.record_batch.writing.pending_chunk import PendingChunk
from k2k_assets.transport.record_batch.writing.sink_settings import SinkSettings
from k2k_assets.transport.record_batch.writing.slot_tactics import SlotTactics


class BatchSink(BatchControlWriter):
    """The exactly-once sink.

    Args:
        settings: How brokers are connected to, and how batches are written.
        transactional_id: The slot's id.
        tactics: What the slot has learned.
        timeout: Seconds that any step may take.
    """

    def __init__(
        self, settings: SinkSettings, transactional_id: str, tactics: SlotTactics, timeout: float = SINK_SECONDS
    ) -> None:
        super().__init__(settings, transactional_id, timeout)
        self._hashes_keys = settings.hashes_keys
        self._tactics = tactics
        packing, most = settings.packing, tactics.batch_bytes
        self._packing = replace(packing, batch_bytes=most, joined_bytes=min(packing.joined_bytes, most))
        self._pending: list[PendingChunk] = []
        self._foresight = Foresight()
        self._foreseen: list[Delivery] | None = None
        self._delivered: list[Delivery] = []

    def write(self, chunk: Chunk) -> Sent:
        pending = PendingChunk(Sent(chunk))
        self._pending.append(pending)
        self._queue(chunk, pending)
        pending.sent.batches = pending.batches
        return pending.sent

    def write_aside(self, chunk: Chunk) -> None:
        self._queue(chunk, PendingChunk(Sent(chunk)))

    def foresee(self) -> Sequence[Delivery] | None:
        if self._tactics.foresees:
            self._foreseen = self._foresight.of(pending.sent for pending in self._pending)
        return self._foreseen

    def settle(self) -> Sequence[Delivery]:
        with self._learning_of_refusals():
            self._queue_controls()
            self._producer.flush()
        pending, self._pending = self._pending, []
        self._delivered = [each.delivery() for each in pending]
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

    def _queue(self, chunk: Chunk, pending: PendingChunk) -> None:
        with self._learning_of_refusals():
            if chunk.target_partition is not None:
                self._queue_batches(chunk, chunk.target_partition, range(chunk.count), pending)
                return
            for partition, indexes, part in self._by_partition(chunk):
                self._queue_batches(part, partition, indexes, pending)

    def _queue_batches(self, chunk: Chunk, partition: int, indexes: Sequence[int], pending: PendingChunk) -> None:
        tp, at = TopicPartition(chunk.target_topic, partition), 0
        for batch in outgoing_of(chunk, self._packing):
            end = at + batch.records
            self._producer.queue(tp, batch, pending.piece(partition, indexes[at:end]))
            at = end

    def _by_partition(self, chunk: Chunk) -> Iterator[tuple[int, Sequence[int], Chunk]]:
        """The records of each partition, where the producer chooses it: indexes in the chunk, and a chunk of them."""
        count = self._producer.partition_count(chunk.target_topic)
        keys: Sequence[bytes | None] = chunk.columns().keys()
        if not self._hashes_keys:
            keys = [None] * len(keys)
        chosen = [partition_of(key, count) for key in keys]
        for partition in sorted(set(chosen)):
            indexes = [index for index, each in enumerate(chosen) if each == partition]
            part = chunk.only([each == partition for each in chosen])
            part.target_partition = partition
            yield partition, indexes, part

    @contextmanager
    def _learning_of_refusals(self) -> Iterator[None]:
        """Handles a record that the target refuses in the body: alone in its batch it will be known which it is.

        Raises:
            RetryAtOnce: The refused record is not known. The next sink learns it.
            Undeliverable: The refused record is known.
        """
        try:
            yield
        except Undeliverable as refusal:
            if refusal.index is None and not self._tactics.is_one_by_one:
                self._tactics.seek_refused()
                raise RetryAtOnce(refusal.why) from None
            self._tactics.found_refused()
            raise
