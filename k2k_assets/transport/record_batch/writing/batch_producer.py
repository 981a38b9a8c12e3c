"""What producers have in common: batches are queued, sent to the leaders of their partitions, and waited for.

```
queue ──> (a partition joins the transaction, if there is one) ──> its leader's connection ──> answers
```

Any doubt ends it: all connections are dropped at once, and each further call raises. The next producer begins at what
the target holds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import K2KError
from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.kafka import clients
from k2k_assets.transport.errors import Restart, Undeliverable
from k2k_assets.transport.record_batch.errors import ConnectionLost
from k2k_assets.transport.record_batch.wire.metadata_client import MetadataClient
from k2k_assets.transport.record_batch.wire.settings import ConnectionSettings
from k2k_assets.transport.record_batch.wire.tasks import Loop, pause
from k2k_assets.transport.record_batch.wire.traffic import NOTHING, QueueSize
from k2k_assets.transport.record_batch.writing.leader_search import LeaderSearch
from k2k_assets.transport.record_batch.writing.leader_writer import LeaderWriter
from k2k_assets.transport.record_batch.writing.pending_chunk import QueuedBatch
from k2k_assets.transport.record_batch.writing.sink_settings import SinkSettings
from k2k_assets.transport.record_batch.writing.target_partitions import (
    NOBODY,
    TargetPartition,
    TargetTopics,
)

K = TypeVar("K")
WINDOW = 16 * 1024 * 1024
"""Bytes that may wait for their answers."""
# Who has had to wait for room goes on when there is some: else it would wait again for each batch.
_WINDOW_WITH_ROOM = WINDOW * 3 // 4
# Less than this waits for more, or for the end of the transaction. Records come partition by partition, and a request
# holds one batch of each: from one partition's records alone would come a request, and an answer, for each batch. So
# what one partition has more than the others waits for these, too; but not while more than WINDOW is sent: as long as
# a batch waits, the whole fetch answer that it came in stays in memory.
_SENT_AT_ONCE = 1024 * 1024


class BatchProducer(ABC, Generic[K]):
    """A producer. Batches are queued by what has sequences of its own: a partition, or a partition and its source.

    Args:
        settings: How brokers are connected to.
        timeout: Seconds that any step may take.
        loops: Those whose tasks go on while it waits, as of `Loop`; None: none.

    Attributes:
        transactional_id: The id of its transactions; None: it writes outside transactions.
        identity: Producer id and epoch of the transaction.
        has_epoch_each: Whether each transaction has an epoch of its own (KIP-890).
    """

    transactional_id: str | None = None
    identity = ProducerIdentity(-1, -1)
    has_epoch_each = False

    def __init__(self, settings: SinkSettings, timeout: float, loops: list[Loop] | None = None) -> None:
        self._settings, self._timeout = settings, timeout
        self._loop = Loop(loops)
        self._cluster = MetadataClient(settings.connection)
        self._topics = TargetTopics(self._cluster)
        self._leaders: dict[int, LeaderWriter] = {}
        self._queued: dict[K, list[QueuedBatch]] = {}
        self._queued_bytes, self._outstanding = 0, NOTHING
        self._passed_bytes = 0  # Sent since some of what is queued was left.
        self._search = LeaderSearch()
        self._failure: Exception | None = None
        self._traffic = settings.connection.traffic
        self._traffic.opened(self, lambda: self._outstanding)

    def partition_count(self, topic: str) -> int:
        """The number of partitions of a topic."""
        with self._step():
            return self._loop.complete(self._topics.count(topic, Deadline(self._timeout)))

    def flush(self) -> None:
        """Waits until all batches are on the target.

        Raises:
            Undeliverable: The target refused a record.
            Restart: The target does not take them in time, or anything else is wrong.
        """
        with self._step():
            if self._outstanding.records:
                self._send(self._taken())
                self._await(self._is_drained)

    def acknowledged(self, size: QueueSize) -> None:
        """Notes that so much is on the target."""
        self._outstanding = self._outstanding.minus(size)
        self._search.succeeded()

    def seek_leader(self, partition: TargetPartition, why: str) -> None:
        """Has the leader of a partition found anew, and what it has ready sent there."""
        self._search.add(partition, why)
        # Who waits for answers is woken when it is time to ask: none may come meanwhile.
        self._loop.start(pause(self._search.patience(self._timeout)))

    def close(self) -> None:
        """Drops all connections."""
        self._failure = self._failure or Restart("the producer is closed")
        self._traffic.closed(self)
        self._loop.close()
        self._cluster.close()
        self._queued.clear()
        self._leaders.clear()

    def _queue(self, key: K, batches: Sequence[QueuedBatch]) -> None:
        for portion, size in _portions(batches):
            self._queue_portion(key, portion, size)

    def _queue_portion(self, key: K, batches: Sequence[QueuedBatch], size: QueueSize) -> None:
        if self._failure is not None:
            raise self._failure
        self._queued.setdefault(key, []).extend(batches)
        self._queued_bytes += size.bytes_
        self._outstanding = self._outstanding.plus(size)
        if self._queued_bytes < _SENT_AT_ONCE and self._outstanding.bytes_ <= WINDOW:
            return
        with self._step():
            self._send(self._taken_evenly())
            if self._outstanding.bytes_ > WINDOW:
                self._await(self._has_room)
            else:
                self._loop.run(0, self._has_room)

    def _taken(self) -> dict[K, list[QueuedBatch]]:
        """What is queued; it is not, any more."""
        queued, self._queued = self._queued, {}
        self._queued_bytes = self._passed_bytes = 0
        return queued

    def _taken_evenly(self) -> dict[K, list[QueuedBatch]]:
        """As many batches of each as of any other; all that is queued if much would be left, or is left for long."""
        least = min(map(len, self._queued.values()))
        left = {key: batches[least:] for key, batches in self._queued.items() if len(batches) > least}
        left_bytes = sum(each.batch.size for batches in left.values() for each in batches)
        passed = self._passed_bytes + self._queued_bytes - left_bytes
        if left_bytes > min(self._queued_bytes // 2, _SENT_AT_ONCE) or passed > WINDOW:
            return self._taken()
        taken = {key: batches[:least] for key, batches in self._queued.items()}
        self._queued, self._queued_bytes, self._passed_bytes = left, left_bytes, passed if left else 0
        return taken

    @abstractmethod
    def _send(self, queued: Mapping[K, Sequence[QueuedBatch]]) -> None:
        """Hands batches to the leaders."""

    def _is_drained(self) -> bool:
        return not self._outstanding.records

    def _has_room(self) -> bool:
        return self._outstanding.bytes_ <= _WINDOW_WITH_ROOM

    def _await(self, done: Callable[[], bool]) -> None:
        deadline = Deadline(self._timeout)
        while not deadline.expired():
            self._loop.run(self._search.patience(deadline.remaining()), lambda: done() or self._search.is_due())
            if done():
                return
            if self._search.is_due():
                self._find_leaders(deadline)
        silent = [str(leader) for leader in self._leaders.values() if leader.unanswered or leader.has_request()]
        self._traffic.timeouts += len(silent)
        trouble = [f"no answer from {', '.join(silent)}"] if silent else []
        trouble += self._search.reasons()
        raise Restart(
            f"the target did not take {self._outstanding.bytes_} bytes within {self._timeout:g} s: {'; '.join(trouble)}"
        )

    def _find_leaders(self, deadline: Deadline) -> None:
        for partition in self._search.take():
            partition.node = self._loop.complete(self._topics.leader(partition.tp, deadline))
            self._leader(partition.node).take_over(partition)

    def _hand_over(self, partition: TargetPartition, batches: Sequence[QueuedBatch]) -> None:
        """Hands batches to the leader of a partition; they wait while that is being found."""
        if partition.node == NOBODY:
            partition.ready.extend(batches)
        else:
            self._leader(partition.node).send(partition, batches)

    def _leader(self, node: int) -> LeaderWriter:
        found, address = self._leaders.get(node), self._cluster.brokers.get(node)
        if found is not None:
            found.address = address or found.address
        elif address is None:
            raise Restart(f"target: broker {node} has left the cluster")
        else:
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
            raise self._fail(_trouble(lost, self._settings.connection)) from None
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


def _portions(batches: Sequence[QueuedBatch]) -> Iterator[tuple[Sequence[QueuedBatch], QueueSize]]:
    """Cuts batches where they are enough to be sent, so that each wait for room is for a little."""
    first = records = bytes_ = 0
    for end, (batch, _, _) in enumerate(batches, 1):
        records += batch.records
        bytes_ += batch.size
        if bytes_ >= _SENT_AT_ONCE:
            yield batches[first:end], QueueSize(records, bytes_)
            first, records, bytes_ = end, 0, 0
    if first < len(batches):
        yield batches[first:], QueueSize(records, bytes_)


def _trouble(lost: ConnectionLost, settings: ConnectionSettings) -> Exception:
    """What a lost connection means: where a login is refused, users have to do something."""
    if clients.is_closed_door(lost):
        servers = ",".join(f"{host}:{port}" for host, port in settings.servers)
        return clients.unreachable("target", {"bootstrap.servers": servers}, lost)
    return Restart(f"target: {lost}")
