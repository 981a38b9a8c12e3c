"""Writes batches outside transactions, in order and without gaps.

Each source partition has a producer id of its own, and so sequences of its own in each partition that it feeds. Its
epoch is raised with each life of the producer that writes it: each session of a slot, and each of the slots that copy
it one after the other.

```
one life    (id 7, epoch 4)  ──> 10 11 12     13 14 under way
its next    (id 7, epoch 5)  ──>          11 12 13 ...
                                          └─ from here on the broker refuses 13 and 14 of epoch 4
```

With a producer id of its own, 13 and 14 could come behind what the next one has written. Two source partitions never
share an id: slots that have them after another would count their records alike, and a broker would take the records of
one for a repetition of the other's.

Nothing is sent twice under one epoch: if anything is in doubt, the next life begins at the last commit record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.record_batch.wire.tasks import Loop
from k2k_assets.transport.record_batch.writing.batch_producer import BatchProducer
from k2k_assets.transport.record_batch.writing.pending_chunk import QueuedBatch
from k2k_assets.transport.record_batch.writing.producer_ids import ProducerIds
from k2k_assets.transport.record_batch.writing.sink_settings import SinkSettings
from k2k_assets.transport.record_batch.writing.target_partitions import TargetPartition

_LAST_EPOCH = 0x7FFF


class Stream(NamedTuple):
    """What has sequences of its own: the records of a source partition in a target partition."""

    source: TopicPartition
    target: TopicPartition


class IdempotentProducer(BatchProducer[Stream]):
    """A producer without transactions.

    Args:
        settings: How brokers are connected to.
        timeout: Seconds that any step may take.
        loops: As of `BatchProducer`.
    """

    def __init__(self, settings: SinkSettings, timeout: float, loops: list[Loop] | None = None) -> None:
        super().__init__(settings, timeout, loops)
        self._identities: dict[TopicPartition, ProducerIdentity] = {}
        self._streams: dict[Stream, TargetPartition] = {}

    def raise_epochs(
        self, former: Mapping[TopicPartition, ProducerIdentity | None]
    ) -> Mapping[TopicPartition, ProducerIdentity]:
        """Decides under which identity each source partition is written from now on; before its first batch.

        Args:
            former: By source partition who has written it last; None: nobody, as far as is known.

        Raises:
            NotAllowed: The principal may not write idempotently.
            Restart: The target does not give producer ids in time.
        """
        with self._step():
            raised = {tp: _raised(identity) for tp, identity in former.items()}
            new = [tp for tp, identity in raised.items() if identity is None]
            given = self._given(len(new)) if new else []
            found = {tp: identity for tp, identity in raised.items() if identity is not None}
            found |= zip(new, given, strict=True)
            self._identities |= found
            return found

    def queue_all(self, source: TopicPartition, tp: TopicPartition, batches: Sequence[QueuedBatch]) -> None:
        """Queues batches; waits while too much is under way.

        Args:
            source: The source partition.
            tp: Where they go.
            batches: The batches.

        Raises:
            Undeliverable: The target refused a record.
            Restart: The target does not take them in time, or anything else is wrong.
        """
        self._queue(Stream(source, tp), batches)

    def _send(self, queued: Mapping[Stream, Sequence[QueuedBatch]]) -> None:
        for stream, batches in queued.items():
            partition = self._streams.get(stream) or self._begun(stream)
            self._hand_over(partition, batches)

    def _begun(self, stream: Stream) -> TargetPartition:
        identity = self._identities.get(stream.source)
        if identity is None:
            (identity,) = self._given(1)
            self._identities[stream.source] = identity
        partition = self._loop.complete(self._topics.partition(stream.target, Deadline(self._timeout)))
        partition.identity = identity
        self._streams[stream] = partition
        return partition

    def _given(self, count: int) -> list[ProducerIdentity]:
        connection = self._settings.connection
        return ProducerIds(count).ask(self._cluster.addresses(), connection, Deadline(self._timeout))


def _raised(identity: ProducerIdentity | None) -> ProducerIdentity | None:
    """The next epoch; None if none follows, because the epochs are used up, or nobody can have written under it."""
    if identity is None or identity.producer_id < 0 or not 0 <= identity.epoch < _LAST_EPOCH:
        return None
    return ProducerIdentity(identity.producer_id, identity.epoch + 1)
