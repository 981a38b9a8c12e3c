"""Reads the source by whole batches, undecoded: no group is joined, nothing is written."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka import clients
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.interface import Polled, Position
from k2k_assets.transport.record_batch.batches.columns import ArrivedBatch, BatchRecords
from k2k_assets.transport.record_batch.errors import (
    MOST_REFUSALS,
    ConnectionLost,
    LoginRefused,
    more_telling,
)
from k2k_assets.transport.record_batch.reading.fetching import Fetching
from k2k_assets.transport.record_batch.reading.leadership import learn_leaders
from k2k_assets.transport.record_batch.reading.partitions import ReadPartition, SeenEnd, id_text, size_of
from k2k_assets.transport.record_batch.wire.control_messages import Metadata
from k2k_assets.transport.record_batch.wire.metadata_client import MetadataClient
from k2k_assets.transport.record_batch.wire.settings import Address, settings_of
from k2k_assets.transport.record_batch.wire.tasks import Loop, Task, pause
from k2k_assets.transport.record_batch.wire.traffic import Traffic

_METADATA_SECONDS = 15.0
_PAUSE = 0.1
_ROUND_SECONDS = 0.005


class BatchSource:
    """Reads the source by whole batches.

    Args:
        properties: The user's consumer settings, librdkafka names.
        buffer_bytes: About how many bytes it fetches ahead; None: the default.
        loops: Those beside which it reads, as of `Loop`; None: it reads only while it is polled.
        most_joined: Small batches with so many records at most are handed out as one; 0: none are.
        traffic: Counts what it sends and receives; None: nobody asks.
        silent: Brokers that other sources could not reach; None: none are known.

    Raises:
        NotByBatches: The settings say something that is not understood here.
        Refused: TLS certificates or keys cannot be read.
    """

    def __init__(
        self,
        properties: Mapping[str, object],
        buffer_bytes: int | None = None,
        loops: list[Loop] | None = None,
        most_joined: int = 0,
        traffic: Traffic | None = None,
        silent: set[Address] | None = None,
    ) -> None:
        self._most_joined = most_joined
        self._traffic = traffic or Traffic()
        settings = settings_of(properties, buffer_bytes)
        self._settings = replace(settings, traffic=self._traffic, silent=set() if silent is None else silent)
        self._properties = properties
        self._loop = Loop(loops)
        self._cluster = MetadataClient(self._settings)
        self._partitions: list[ReadPartition] = []
        self._fetching = Fetching(self._settings, self._loop, self._cluster, [])
        self._traffic.opened(self, lambda: self._fetching.queued)

    def assign(
        self, positions: Mapping[TopicPartition, Position], keep_waiting: Callable[[], None] | None = None
    ) -> None:
        self._loop.stop()
        self._partitions = [
            ReadPartition(
                tp,
                at.offset,
                -1 if at.leader_epoch is None else at.leader_epoch,
                resume=-1 if at.resume is None else at.resume,
            )
            for tp, at in positions.items()
        ]
        try:
            found = self._loop.complete(self._first_metadata({tp.topic for tp in positions}), keep_waiting)
        except ConnectionLost as lost:
            raise clients.unreachable("source", self._properties, lost) from None
        learn_leaders(self._partitions, found)
        self._fetching = Fetching(
            self._settings, self._loop, self._cluster, self._partitions, most_joined=self._most_joined
        )
        self._fetching.start()

    def _first_metadata(self, topics: set[str]) -> Task[Metadata]:
        deadline, refusals = Deadline(_METADATA_SECONDS), 0
        trouble: ConnectionLost | None = None
        while True:
            try:
                return (yield from self._cluster.ask(topics, deadline))
            except ConnectionLost as lost:
                trouble = more_telling(trouble, lost)
                refusals += isinstance(lost, LoginRefused)
                if deadline.expired() or refusals >= MOST_REFUSALS:
                    raise trouble from None
            yield from pause(_PAUSE)

    def poll(self, limit: int, timeout: float) -> Polled:
        if self._fetching.queued.records < limit:
            self._loop.run(0, self._is_anything_queued)
        if not self._is_anything_queued():
            self._loop.run(timeout, self._is_anything_queued)
        polled = self._collected(limit)
        if self._is_round_due():
            # Brokers get the next questions before the caller is busy with these answers.
            self._loop.run(0, lambda: True)
        return polled

    def _is_round_due(self) -> bool:
        """Whether brokers may have to hear something: not if much is queued, and they heard just now."""
        has_little = self._fetching.queued.bytes_ < self._settings.queued // 2
        return has_little or time.monotonic() - self._loop.went_round > _ROUND_SECONDS

    def gather(self, seconds: float) -> None:
        self._loop.run(seconds, lambda: False)

    def topic_id(self, tp: TopicPartition) -> str:
        """The topic id under which an assigned partition is read, as Kafka writes it."""
        return next(id_text(partition.topic_id) for partition in self._partitions if partition.tp == tp)

    def close(self) -> None:
        self._traffic.closed(self)
        self._loop.close()
        self._cluster.close()
        self._partitions = []

    def _is_anything_queued(self) -> bool:
        return any(partition.queue for partition in self._partitions)

    def _collected(self, limit: int) -> Polled:
        polled, count = Polled(), 0
        for partition in self._partitions:
            if count >= limit:
                break
            if partition.queue:
                count += self._collect(partition, limit - count, polled)
        if count < limit:
            polled.has_more = any(partition.has_more for partition in self._partitions)
        # Those that were not reached come first the next time.
        self._partitions = [*self._partitions[1:], *self._partitions[:1]]
        return polled

    def _collect(self, partition: ReadPartition, limit: int, polled: Polled) -> int:
        """Takes up to `limit` records of a partition, whole batches; returns how many.

        Raises:
            SourceStopped: Nothing else is in hand, and it cannot be read any further.
            NotByBatches: Likewise, and librdkafka may read it.
        """
        taken: list[ArrivedBatch] = []
        count = 0
        while partition.queue and count < limit:
            first = partition.queue[0]
            if isinstance(first, ArrivedBatch):  # nearly always
                taken.append(first)
                count += len(first.offsets)
                if polled.ends:
                    polled.ends.pop(partition.tp, None)
            elif isinstance(first, SeenEnd):
                polled.ends[partition.tp] = first.offset
            elif isinstance(first, Position):
                polled.epochs[partition.tp] = first
            elif taken or polled.chunks or polled.ends:
                break
            else:
                raise first
            partition.queue.popleft()
        if taken:
            self._fetching.queued = self._fetching.queued.minus(size_of(taken))
            polled.chunks.append(Chunk(partition.tp, BatchRecords(partition.tp, taken)))
        return count
