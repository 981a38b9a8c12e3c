"""What both sinks have in common: chunks become batches, and their answers tell where the records went."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.chunk import Chunk, Sent
from k2k_assets.transport.errors import RetryAtOnce, Undeliverable
from k2k_assets.transport.interface import Delivery
from k2k_assets.transport.record_batch.batches.rewriting import outgoing_of
from k2k_assets.transport.record_batch.writing.partitioner import partition_of
from k2k_assets.transport.record_batch.writing.pending_chunk import PendingChunk, QueuedBatch
from k2k_assets.transport.record_batch.writing.sink_settings import SinkSettings
from k2k_assets.transport.record_batch.writing.slot_tactics import SlotTactics


class BatchChunkWriter(ABC):
    """The part of a sink that writes chunks. Sinks differ in their producer.

    Args:
        settings: How batches are written.
        tactics: What the slot has learned.
    """

    def __init__(self, settings: SinkSettings, tactics: SlotTactics) -> None:
        self._hashes_keys = settings.hashes_keys
        self._tactics = tactics
        packing, most = settings.packing, tactics.batch_bytes
        self._packing = replace(packing, batch_bytes=most, joined_bytes=min(packing.joined_bytes, most))
        self._pending: list[PendingChunk] = []

    @abstractmethod
    def _queue_all(self, source: TopicPartition, tp: TopicPartition, batches: Sequence[QueuedBatch]) -> None:
        """Queues batches of a source partition for a target partition."""

    @abstractmethod
    def _partition_count(self, topic: str) -> int:
        """The number of partitions of a topic."""

    def write(self, chunk: Chunk) -> Sent:
        if chunk.target_partition is None:
            chunk.columns()  # decoded for its keys, it may end before a batch that cannot be read
        pending = PendingChunk(Sent(chunk))
        self._queue(chunk, pending)
        self._pending.append(pending)  # not before: of a chunk that cannot be read nothing was queued
        pending.sent.batches = pending.batches
        return pending.sent

    def write_aside(self, chunk: Chunk) -> None:
        self._queue(chunk, PendingChunk(Sent(chunk)))

    def _taken(self) -> list[Delivery]:
        """Where the chunks since the last call are, when all batches are answered."""
        pending, self._pending = self._pending, []
        return [each.delivery() for each in pending]

    def _queue(self, chunk: Chunk, pending: PendingChunk) -> None:
        with self._learning_of_refusals():
            if chunk.target_partition is not None:
                self._queue_batches(chunk, chunk.target_partition, range(chunk.count), pending)
                return
            for partition, indexes, part in self._by_partition(chunk):
                self._queue_batches(part, partition, indexes, pending)

    def _queue_batches(self, chunk: Chunk, partition: int, indexes: Sequence[int], pending: PendingChunk) -> None:
        tp = TopicPartition(chunk.target_topic, partition)
        self._queue_all(chunk.source, tp, pending.queued(partition, indexes, outgoing_of(chunk, self._packing)))

    def _by_partition(self, chunk: Chunk) -> Iterator[tuple[int, Sequence[int], Chunk]]:
        """The records of each partition, where the producer chooses it: indexes in the chunk, and a chunk of them."""
        count = self._partition_count(chunk.target_topic)
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
