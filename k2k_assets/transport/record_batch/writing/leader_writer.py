"""Writes to the partitions that one broker leads, through one connection: a broker takes its requests one at a time.

| answer | what becomes of the batch |
| --- | --- |
| an offset | it is there |
| the broker does not lead it, too few replicas are in sync, it cannot join yet; and no offset | it was not written |
| anything else, or none | it may be there: all ends |

A broker checks that sequences go on. So what was sent behind a batch that was not written is refused likewise, and all
of it goes again, in order and under the same sequences, once nothing of the partition is unanswered. It checks nothing
while it knows nothing of the producer: outside transactions the first batch is sent alone.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.core.words import plural
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.record_batch.batches.outgoing import stamped
from k2k_assets.transport.record_batch.errors import ConnectionLost, LoginRefused, ProtocolError, error_text
from k2k_assets.transport.record_batch.wire import produce_messages as messages
from k2k_assets.transport.record_batch.wire.connection import BrokerConnection
from k2k_assets.transport.record_batch.wire.control_messages import PRODUCE
from k2k_assets.transport.record_batch.wire.produce_messages import (
    ProduceAnswer,
    ProducedPartition,
    WrittenBatch,
    WrittenPartition,
)
from k2k_assets.transport.record_batch.wire.request_pipeline import BrokerRequest, RequestPipeline
from k2k_assets.transport.record_batch.wire.settings import Address, ConnectionSettings
from k2k_assets.transport.record_batch.wire.tasks import Task, Wait
from k2k_assets.transport.record_batch.wire.traffic import QueueSize
from k2k_assets.transport.record_batch.writing.pending_chunk import QueuedBatch
from k2k_assets.transport.record_batch.writing.refusals import refusal_of
from k2k_assets.transport.record_batch.writing.target_partitions import TargetPartition
from k2k_assets.transport.record_batch.writing.write_errors import (
    NOT_TAKEN,
    OUT_OF_ORDER,
    REFUSALS,
    error_of,
)

# Larger requests would only keep the answers of their first batches waiting.
_REQUEST_BYTES = 1024 * 1024
_BROKER_SECONDS = 30.0
_SEQUENCES = 0x7FFFFFFF
_BEFORE_JOINING = messages.JOINING - 1
_FOREVER = float("inf")
# What is answered about a batch at least.
_LEAST_ANSWER = 33


class Transaction(Protocol):
    """What the writers of all leaders share.

    Attributes:
        transactional_id: The id; None outside transactions, where each partition has an identity of its own.
        identity: Producer id and epoch of the transaction.
        has_epoch_each: Whether each transaction has an epoch of its own.
    """

    transactional_id: str | None
    identity: ProducerIdentity
    has_epoch_each: bool

    def acknowledged(self, size: QueueSize) -> None:
        """Notes that so much is on the target."""
        ...

    def seek_leader(self, partition: TargetPartition, why: str) -> None:
        """Has the leader of a partition found anew, and what it has ready sent there."""
        ...


_Sent = tuple[TargetPartition, QueuedBatch, int]
"""Where a batch was sent, the batch, and the sequence of its first record."""


class LeaderWriter:
    """Writes to what one broker leads. What may be written is never sent again: if anything is in doubt, it raises.

    Args:
        address: The broker.
        settings: How it is connected to.
        transaction: Who writes.

    Attributes:
        address: The broker; of the next connection.
        not_before: When the next request may be sent, monotonic seconds: the broker may ask to be left alone.
        unanswered: How many requests have no answer yet.
    """

    def __init__(self, address: Address, settings: ConnectionSettings, transaction: Transaction) -> None:
        self.not_before = 0.0
        self.address, self.unanswered = address, 0
        self._settings, self._transaction = settings, transaction
        self._active: deque[TargetPartition] = deque()
        self._version = messages.OLDEST

    def __str__(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    def send(self, partition: TargetPartition, batches: Sequence[QueuedBatch]) -> None:
        """Queues batches of a partition that is in the transaction."""
        if not (partition.ready or partition.refused or partition.is_alone):
            self._active.append(partition)
        partition.ready.extend(batches)

    def take_over(self, partition: TargetPartition) -> None:
        """Goes on with what another one has not taken."""
        partition.error = 0
        self._active.append(partition)

    def run(self) -> Task[None]:
        """Sends what is queued, and takes in the answers.

        Raises:
            ConnectionLost: The broker does not say what became of a batch.
            LoginRefused: It refuses the credentials.
            Undeliverable: It refuses a record.
            Fenced: Somebody else has the transactional id.
            Restart: It answers anything else that is no success.
        """
        while True:
            yield Wait(_FOREVER, ready=self.has_request)
            connection = BrokerConnection(self.address, self._settings)
            try:
                try:
                    yield from connection.open()
                except LoginRefused:
                    raise
                except ConnectionLost as lost:
                    self._hand_back(str(lost))
                    continue
                self._version = self._version_of(connection)
                pipeline = RequestPipeline(connection, self)
                try:
                    yield from pipeline.run()
                except ConnectionLost as lost:
                    if not pipeline.is_idle:
                        connection.traffic.errors += self.unanswered
                        raise
                    if not pipeline.is_used:
                        self._hand_back(str(lost))  # else it would be opened and closed again and again
            finally:
                connection.close()

    def _hand_back(self, why: str) -> None:
        """Gives up what is ready, of which nothing was sent."""
        while self._active:
            self._transaction.seek_leader(self._active.popleft(), why)

    def _version_of(self, connection: BrokerConnection) -> int:
        if self._transaction.transactional_id is None:
            return connection.version_of(PRODUCE, messages.OLDEST, messages.NEWEST)
        if self._transaction.has_epoch_each:
            return connection.version_of(PRODUCE, messages.JOINING, messages.NEWEST)
        return connection.version_of(PRODUCE, messages.OLDEST, _BEFORE_JOINING)

    def has_request(self) -> bool:
        return bool(self._active)

    def next_request(self) -> BrokerRequest:
        transaction, active, size = self._transaction, self._active, 0
        records = 0
        is_transactional = transaction.transactional_id is not None
        is_by_id = self._version >= messages.WITH_TOPIC_IDS
        sent: dict[WrittenPartition, _Sent] = {}
        batches: dict[str | bytes, list[WrittenBatch]] = {}
        again: list[TargetPartition] = []
        skipped: list[TargetPartition] = []
        while active and size < _REQUEST_BYTES:
            partition = active.popleft()
            topic, index = partition.tp
            name = partition.topic_id if is_by_id else topic
            written = name, index
            if written in sent:  # of another source
                skipped.append(partition)
                continue
            producer_id, epoch = partition.identity or transaction.identity
            queued = partition.ready.popleft()
            batch, sequence = queued.batch, partition.sequence
            header = stamped(batch, producer_id, epoch, sequence, is_transactional)
            batches.setdefault(name, []).append((index, header, batch.payload))
            sent[written] = partition, queued, sequence
            partition.unanswered += 1
            partition.sequence = sequence + batch.records & _SEQUENCES
            size += batch.size
            records += batch.records
            partition.is_alone = partition.has_to_go_alone()
            if partition.ready and not partition.is_alone:
                again.append(partition)
        active.extendleft(reversed(skipped))
        active.extend(again)
        version = self._version
        self.unanswered += 1
        carried = QueueSize(records, size)
        self._settings.traffic.carried(carried)
        pieces, length = messages.produce(transaction.transactional_id, _BROKER_SECONDS, batches)
        least = len(sent) * _LEAST_ANSWER

        def take(answer: memoryview) -> None:
            self._take(messages.read_produce(version, answer), sent, carried)

        return BrokerRequest(PRODUCE, version, pieces, length, take, least)

    def _take(self, answer: ProduceAnswer, sent: dict[WrittenPartition, _Sent], size: QueueSize) -> None:
        if answer.throttled:
            self.not_before = time.monotonic() + answer.throttled
            self._settings.traffic.throttled(answer.throttled)
        answered = answer.partitions
        if answer.has_errors:
            # The others' errors only follow from a verdict about a record.
            answered = sorted(answered, key=lambda each: each.error not in REFUSALS)
        for found in answered:
            asked = sent.pop(found[:2], None)
            if asked is None:
                raise ProtocolError("an answer about a partition that was not written to")
            if not self._answered(asked, found):
                _, queued, _ = asked
                size = size.minus(queued.size)
        if sent:
            raise ProtocolError(f"no answer about {plural(len(sent), 'partition')} written to")
        self.unanswered -= 1
        if size.records:
            self._transaction.acknowledged(size)

    def _answered(self, sent: _Sent, found: ProducedPartition) -> bool:
        """Takes an answer about a batch; returns whether it was written."""
        partition, queued, sequence = sent
        partition.unanswered -= 1
        is_written = found.base_offset >= 0 or not _was_not_taken(partition, found.error)
        if is_written:
            self._appended(sent, found)
        else:
            if not partition.refused:
                partition.refused_from, partition.error = sequence, found.error
                with suppress(ValueError):
                    self._active.remove(partition)
            partition.refused.append(queued)
            self._settings.traffic.retries += 1
        if partition.refused and not partition.unanswered:
            partition.take_back()
            self._transaction.seek_leader(partition, f"{self}: {partition.tp}: {error_text(partition.error)}")
        return is_written

    def _appended(self, sent: _Sent, found: ProducedPartition) -> None:
        partition, queued, _ = sent
        batch, part, number = queued
        base = found.base_offset
        if found.error:
            if found.error in REFUSALS and part is not None:
                raise refusal_of(queued, part, found)
            topic = partition.tp.topic
            raise error_of(found.error, f"writing to {partition.tp}", topic, found.words)
        if partition.refused:
            raise Restart(f"writing to {partition.tp}: a batch was written, and one before it was not")
        if base < max(0, partition.end):
            raise Restart(
                f"writing to {partition.tp}: a batch lies at {base}, before the end {partition.end} of another"
            )
        partition.end = base + batch.records
        partition.taken_at = time.monotonic()
        if partition.is_alone:
            partition.is_alone = False
            if partition.ready:
                self._active.append(partition)
        if part is not None:
            part.bases[number] = base


def _was_not_taken(partition: TargetPartition, error: int) -> bool:
    """Whether a batch that got no offset was not written, and may go again."""
    return error in NOT_TAKEN or (error == OUT_OF_ORDER and bool(partition.refused))
