"""What both sinks have in common: chunks are queued in order, and delivery reports tell where they went."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from k2k_assets.transport.chunk import Chunk, Sent
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.interface import Delivery
from k2k_assets.transport.librdkafka.deliveries import PendingDelivery, raise_errors, results
from k2k_assets.transport.librdkafka.report_mode import ReportMode


class ChunkWriter(ABC):
    """The part of a sink that writes chunks. Sinks differ in their producer, and in what they ask it after a failure.

    Args:
        report_mode: Decides how many delivery reports are asked for.
    """

    def __init__(self, report_mode: ReportMode) -> None:
        self._report_mode = report_mode
        self._pending: list[PendingDelivery] = []
        self._aside: list[PendingDelivery] = []

    def write(self, chunk: Chunk) -> Sent:
        pending = PendingDelivery(chunk, self._report_mode.report_each)
        self._pending.append(pending)
        self._queue(chunk, pending)
        return pending.sent

    def write_aside(self, chunk: Chunk) -> None:
        pending = PendingDelivery(chunk, report_each=True)
        self._aside.append(pending)
        self._queue(chunk, pending)

    def _queue(self, chunk: Chunk, pending: PendingDelivery) -> None:
        with self._report_mode.learning_of_refusals():
            try:
                self._produce(chunk, pending)
            except Restart:
                self._ensure_accepted([*self._pending, *self._aside])
                raise

    def _settle(self) -> list[Delivery]:
        """Waits until all chunks since the last call are on the target; returns a delivery for each, in order."""
        pending, aside = self._pending, self._aside
        self._pending, self._aside = [], []
        with self._report_mode.learning_of_refusals():
            self._drain([*pending, *aside])
            deliveries = self._results(pending, aside)
        self._report_mode.ensure_whole(deliveries)
        return deliveries

    def _results(self, pending: Sequence[PendingDelivery], aside: Sequence[PendingDelivery]) -> list[Delivery]:
        """The deliveries of the chunks that are copies, when all are reported.

        Raises:
            Undeliverable: The target refused a record of any chunk.
        """
        raise_errors([*pending, *aside])
        results(aside)
        return results(pending)

    @abstractmethod
    def _produce(self, chunk: Chunk, pending: PendingDelivery) -> None:
        """Queues a chunk.

        Raises:
            Restart: The producer failed, or its queue stayed full.
        """

    @abstractmethod
    def _drain(self, pending: Sequence[PendingDelivery]) -> None:
        """Waits until no record is queued.

        Args:
            pending: The chunks in the queue.

        Raises:
            Restart: The target did not take all records in time.
            Undeliverable: The target refused a record.
        """

    @abstractmethod
    def _ensure_accepted(self, pending: Sequence[PendingDelivery]) -> None:
        """Finds out whether the target refused a record, when the producer failed.

        Raises:
            Undeliverable: It did.
            Forbidden: The principal may not write to a topic.
        """
