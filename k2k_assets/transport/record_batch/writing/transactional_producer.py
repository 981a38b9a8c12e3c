"""Writes batches in transactions. Nothing that carries records is ever sent twice.

```
 queue ──> a partition joins ──> its leader's connection ──> answers ──> commit
           (by a request of its own right after another transaction, else by its first records)
```

Any doubt ends it: all connections are dropped at once, and each further call raises. The next producer with the same
transactional id aborts what this one has left open, and begins at what the target holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import K2KError
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.errors import Fenced, Restart, Undeliverable
from k2k_assets.transport.record_batch.batches.outgoing import OutgoingBatch
from k2k_assets.transport.record_batch.errors import ConnectionLost
from k2k_assets.transport.record_batch.wire.metadata_client import MetadataClient
from k2k_assets.transport.record_batch.wire.tasks import Loop
from k2k_assets.transport.record_batch.wire.transaction_messages import ProducerIdentity
from k2k_assets.transport.record_batch.writing.coordinator import TransactionCoordinator
from k2k_assets.transport.record_batch.writing.leader_writer import LeaderWriter
from k2k_assets.transport.record_batch.writing.pending_chunk import Piece
from k2k_assets.transport.record_batch.writing.sink_settings import SinkSettings
from k2k_assets.transport.record_batch.writing.target_partitions import QueuedBatch, TargetPartition, TargetTopics

WINDOW = 16 * 1024 * 1024
"""Bytes that may wait for their answers."""
# Less than this waits for more, or for the end of the transaction.
_SENT_AT_ONCE = 256 * 1024
ENDING_SECONDS = 0.05
"""How long a transaction may still be being ended: meanwhile brokers hold back records that join the next one."""
_LAST_CHANCE_SECONDS = 2.0
_NOBODY = ProducerIdentity(-1, -1)


class TransactionalProducer:
    """A producer with a transactional id.

    Args:
        settings: How brokers are connected to.
        transactional_id: The id.
        timeout: Seconds that any step may take.
        ending_seconds: For so long after the end of a transaction, partitions join the next one by requests.

    Attributes:
        transactional_id: The id.
        identity: Producer id and epoch of the transaction.
        has_epoch_each: Whether each transaction has an epoch of its own (KIP-890).
    """

    def __init__(
        self,
        settings: SinkSettings,
        transactional_id: str,
        timeout: float,
        ending_seconds: float = ENDING_SECONDS,
    ) -> None:
        self.transactional_id = transactional_id
        self.identity = _NOBODY
        self.has_epoch_each = False
        self._settings, self._timeout, self._ending_seconds = settings, timeout, ending_seconds
        self._loop = Loop()
        self._cluster = MetadataClient(settings.connection)
        self._topics = TargetTopics(self._cluster)
        self._coordinator = TransactionCoordinator(settings, transactional_id)
        self._partitions: dict[TopicPartition, TargetPartition] = {}
        self._leaders: dict[int, LeaderWriter] = {}
        self._queued: dict[TopicPartition, list[QueuedBatch]] = {}
        self._queued_bytes = self._outstanding = 0
        self._joined: set[TopicPartition] = set()
        self._ended_at = float("-inf")
        self._failure: Exception | None = None
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

    def partition_count(self, topic: str) -> int:
        """The number of partitions of a topic."""
        with self._step():
            return self._loop.complete(self._topics.count(topic, Deadline(self._timeout)))

    def queue(self, tp: TopicPartition, batch: OutgoingBatch, piece: Piece | None = None) -> None:
        """Queues a batch into the open transaction; waits while too much is under way.

        Args:
            tp: Where it goes.
            batch: The batch.
            piece: Learns where it is; None: nobody needs to know.

        Raises:
            Undeliverable: The target refused a record.
            Restart: The target does not take it in time, or anything else is wrong.
        """
        with self._step():
            self._queued.setdefault(tp, []).append(QueuedBatch(batch, piece))
            self._queued_bytes += batch.size
            self._outstanding += batch.size
            if self._queued_bytes >= _SENT_AT_ONCE:
                self._send()
                self._loop.run(0, self._has_room)
            if not self._has_room():
                self._await(self._has_room)

    def flush(self) -> None:
        """Waits until all batches are on the target.

        Raises:
            Undeliverable: The target refused a record.
            Restart: The target does not take them in time, or anything else is wrong.
        """
        with self._step():
            if self._outstanding:
                self._send()
                self._await(self._is_drained)

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
            self._ended_at = time.monotonic()
            self._is_commit_asked = False
            self._joined.clear()
            if following != self.identity:
                self.identity = following
                for partition in self._partitions.values():
                    partition.sequence = 0

    def close(self) -> None:
        """Aborts the open transaction if that works at once, and drops all connections."""
        self._loop.stop()
        if self._joined and not self._is_commit_asked and not isinstance(self._failure, Fenced):
            with suppress(ConnectionLost, Restart, K2KError):
                self._loop.complete(self._coordinator.abort(self.identity, Deadline(_LAST_CHANCE_SECONDS)))
        self._failure = self._failure or Restart("the producer is closed")
        self._drop()

    def acknowledged(self, size: int) -> None:
        """Notes that so many bytes are on the target."""
        self._outstanding -= size

    def _is_drained(self) -> bool:
        return not self._outstanding

    def _has_room(self) -> bool:
        return self._outstanding <= WINDOW

    def _await(self, done: Callable[[], bool]) -> None:
        self._loop.run(self._timeout, done)
        if not done():
            raise Restart(f"the target did not take {self._outstanding} bytes within {self._timeout:g} s")

    def _send(self) -> None:
        """Hands what is queued to the leaders; before that, its partitions join the transaction."""
        deadline = Deadline(self._timeout)
        queued, self._queued, self._queued_bytes = self._queued, {}, 0
        for tp in queued:
            if tp not in self._partitions:
                self._partitions[tp] = self._loop.complete(self._topics.partition(tp, deadline))
        new = [tp for tp in queued if tp not in self._joined]
        joins_apart = bool(new) and self._joins_apart()
        self._joined.update(new)
        if joins_apart:
            self._loop.complete(self._coordinator.join(self.identity, new, deadline))
        for tp, batches in queued.items():
            partition = self._partitions[tp]
            self._leader(partition.node).send(partition, batches)

    def _joins_apart(self) -> bool:
        """Whether partitions join by a request of their own: the records themselves would be held back, or cannot."""
        if not self.has_epoch_each:
            return True
        return not self._joined and time.monotonic() - self._ended_at < self._ending_seconds

    def _leader(self, node: int) -> LeaderWriter:
        found = self._leaders.get(node)
        if found is None:
            address = self._cluster.brokers.get(node)
            if address is None:
                raise Restart(f"target: broker {node} has left the cluster")
            found = LeaderWriter(address, self._settings.connection, self)
            self._leaders[node] = found
            self._loop.start(found.run())
        return found

    @contextmanager
    def _step(self) -> Iterator[None]:
        """Ends everything if its body fails."""
        if self._failure is not None:
            raise self._failure
        try:
            yield
        except ConnectionLost as lost:
            raise self._fail(Restart(f"target: {lost}")) from None
        except (Restart, Undeliverable, K2KError) as failure:
            self._fail(failure)
            raise
        except BaseException as unexpected:
            self._fail(Restart(f"target: {unexpected!r}"))
            raise

    def _fail(self, failure: Exception) -> Exception:
        self._failure = failure
        self._loop.stop()
        return failure

    def _drop(self) -> None:
        self._loop.stop()
        self._coordinator.close()
        self._cluster.close()
        self._queued.clear()
        self._leaders.clear()
