"""Writes batches in transactions. Nothing that may have been written is ever sent again.

Right after another transaction a partition joins the next one by a request of its own, else by its first records. The
next producer with the same transactional id aborts what this one has left open.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import K2KError
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.errors import Fenced, Restart
from k2k_assets.transport.record_batch.batches.outgoing import OutgoingBatch
from k2k_assets.transport.record_batch.errors import ConnectionLost
from k2k_assets.transport.record_batch.wire.tasks import Loop
from k2k_assets.transport.record_batch.writing.batch_producer import BatchProducer
from k2k_assets.transport.record_batch.writing.coordinator import TransactionCoordinator
from k2k_assets.transport.record_batch.writing.ending_time import EndingTime
from k2k_assets.transport.record_batch.writing.pending_chunk import QueuedBatch
from k2k_assets.transport.record_batch.writing.sink_settings import SinkSettings
from k2k_assets.transport.record_batch.writing.target_partitions import TargetPartition
from k2k_assets.transport.record_batch.writing.write_errors import CONCURRENT_TRANSACTIONS

ENDING_SECONDS = 0.05
"""What brokers take to end a transaction, mostly: meanwhile they hold back records that join the next one."""
_LAST_CHANCE_SECONDS = 2.0


class TransactionalProducer(BatchProducer[TopicPartition]):
    """A producer with a transactional id.

    Args:
        settings: How brokers are connected to.
        transactional_id: The id.
        timeout: Seconds that any step may take.
        ending_seconds: For so long after a commit, or longer where brokers are slow to end a transaction, partitions
            join the next one by requests.
        loops: Those whose tasks go on while it waits, as of `Loop`; None: none.
    """

    transactional_id: str

    def __init__(
        self,
        settings: SinkSettings,
        transactional_id: str,
        timeout: float,
        ending_seconds: float = ENDING_SECONDS,
        loops: list[Loop] | None = None,
    ) -> None:
        super().__init__(settings, timeout, loops)
        self.transactional_id = transactional_id
        self._ending = EndingTime(ending_seconds)
        self._coordinator = TransactionCoordinator(settings, transactional_id, self._cluster.addresses)
        self._partitions: dict[TopicPartition, TargetPartition] = {}
        self._joined: set[TopicPartition] = set()
        self._is_commit_asked = False

    def open(self, step: str = "claiming the transactional id") -> None:
        """Initialises the transactional id: this fences its former holder, and aborts that one's open transaction.

        Args:
            step: Names this step in errors.

        Raises:
            NotAllowed: The principal may not use the id.
            TimeoutTooLong: The transaction time-out is longer than the brokers allow.
            Restart: The target did not answer in time.
        """
        with self._step():
            self.identity = self._loop.complete(self._coordinator.open(Deadline(self._timeout), step))
            self.has_epoch_each = self._coordinator.has_epoch_each

    def queue(self, tp: TopicPartition, batch: OutgoingBatch) -> None:
        """As `queue_all`, where nobody needs to know where the batch is."""
        self.queue_all(tp, [QueuedBatch(batch)])

    def queue_all(self, tp: TopicPartition, batches: Sequence[QueuedBatch]) -> None:
        """Queues batches into the open transaction; waits while too much is under way.

        Args:
            tp: Where they go.
            batches: The batches.

        Raises:
            Undeliverable: The target refused a record.
            Restart: The target does not take them in time, or anything else is wrong.
        """
        self._queue(tp, batches)

    def commit(self) -> None:
        """Commits what was queued since the last commit; nothing is asked of the target if that is nothing.

        Raises:
            Fenced: Another producer has the transactional id now.
            Restart: The commit failed, or its outcome is not known.
        """
        self.flush()
        with self._step():
            if not self._joined:
                return
            self._is_commit_asked = True
            following = self._loop.complete(self._coordinator.commit(self.identity, Deadline(self._timeout)))
            self._ending.began(time.monotonic())
            self._is_commit_asked = False
            self._joined.clear()
            if following != self.identity:
                self.identity = following
                for partition in self._partitions.values():
                    partition.sequence = 0

    def seek_leader(self, partition: TargetPartition, why: str) -> None:
        if partition.error == CONCURRENT_TRANSACTIONS:
            self._ending.is_not_over(time.monotonic())
        super().seek_leader(partition, why)

    def close(self) -> None:
        """Aborts the open transaction if that works at once, and drops all connections."""
        self._loop.stop()
        if self._joined and not self._is_commit_asked and not isinstance(self._failure, Fenced):
            with suppress(ConnectionLost, Restart, K2KError):
                self._loop.complete(self._coordinator.abort(self.identity, Deadline(_LAST_CHANCE_SECONDS)))
        super().close()
        self._coordinator.close()

    def _send(self, queued: Mapping[TopicPartition, Sequence[QueuedBatch]]) -> None:
        """Hands batches to the leaders; before that, their partitions join the transaction."""
        deadline = Deadline(self._timeout)
        for tp in queued:
            if tp not in self._partitions:
                self._partitions[tp] = self._loop.complete(self._topics.partition(tp, deadline))
        new = [tp for tp in queued if tp not in self._joined]
        joins_apart = bool(new) and self._joins_apart()
        self._joined.update(new)
        if joins_apart:
            had_to_wait = self._loop.complete(self._coordinator.join(self.identity, new, deadline))
            self._ending.is_over(time.monotonic(), had_to_wait)
        for tp, batches in queued.items():
            self._hand_over(self._partitions[tp], batches)

    def _joins_apart(self) -> bool:
        """Whether partitions join by a request of their own: the records themselves would be held back, or cannot."""
        if not self.has_epoch_each:
            return True
        return not self._joined and self._ending.may_go_on(time.monotonic())
