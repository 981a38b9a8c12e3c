"""Learns the target offsets of chunks from as few delivery reports as possible.

Reports for the first and the last record of a chunk are enough if `last - first + 1 == count`: then, and only then, the
records lie one behind the other. Where several writers or a partitioner are at work, every record is reported.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import repeat
from operator import length_hint

from confluent_kafka import KafkaError, Producer

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.words import plural
from k2k_assets.kafka.messages import Message
from k2k_assets.transport.chunk import Chunk, Sent
from k2k_assets.transport.errors import Forbidden, Restart, Undeliverable
from k2k_assets.transport.interface import SINK_SECONDS, Delivery

log = logging.getLogger("k2k.transport")

_Report = Callable[[KafkaError | None, Message], None]

# Seconds to wait for the producer when its queue is full.
FULL_QUEUE_WAIT = 0.05
_LARGER_THAN_THE_QUEUE = "it does not fit into the producer's queue (buffer.memory)"

# Error codes for a topic that was deleted.
_NOT_THERE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)


class PendingDelivery:
    """Collects the delivery reports of a chunk.

    Args:
        chunk: The chunk.
        report_each: Whether every record is reported.
    """

    __slots__ = ("_each", "delivery", "error", "failed_index", "failed_message", "outstanding", "sent")

    def __init__(self, chunk: Chunk, report_each: bool) -> None:
        self.sent = Sent(chunk)
        self.delivery = Delivery(self.sent)
        self.error: KafkaError | None = None
        self.failed_index: int | None = None
        self.failed_message: Message | None = None
        n = self.sent.count
        self._each: list[tuple[int, int]] | None = [(-1, -1)] * n if report_each else None
        self.outstanding = n if report_each else min(n, 2)

    def reports(self) -> Sequence[_Report | None]:
        """The report callback of each record; None for most."""
        n = self.sent.count
        if self._each is not None:
            return [partial(self._record, index) for index in range(n)]
        if n == 1:
            self.outstanding = 1
            return (self._only,)
        reports: list[_Report | None] = [None] * n
        reports[0], reports[-1] = self._first, self._last
        return reports

    def result(self) -> Delivery:
        """The target offsets of the chunk.

        Raises:
            Undeliverable: The target refused a record.
            Forbidden: The principal may not write to the topic.
            Restart: A report is missing, or the topic does not exist.
        """
        if self.error is not None:
            if self.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                topic = self.sent.target_topic
                raise Forbidden(f"writing to {topic}: {self.error.str()}", topic)
            if self.error.code() in _NOT_THERE:  # the next session finds out why
                raise Restart(f"writing to {self.sent.target_topic}: {self.error.str()}")
            size = _bytes_of(self.failed_message)
            raise Undeliverable(self.sent, self.failed_index, size, self.error.str(), _is_verdict(self.error))
        if self.outstanding:
            raise Restart(f"{self.outstanding} delivery reports of {self.sent.source} did not come")
        if self._each is not None:
            self.delivery.each = self._each
        elif self.delivery.last - self.delivery.first + 1 < self.sent.count:
            raise Undeliverable(self.sent, None, 0, "fewer records arrived than were sent", final=True)
        return self.delivery

    def _only(self, error: KafkaError | None, message: Message) -> None:
        if self._ok(error, message, 0):
            self.delivery.partition = message.partition()
            self.delivery.first = self.delivery.last = message.offset()

    def _first(self, error: KafkaError | None, message: Message) -> None:
        if self._ok(error, message, None):
            self.delivery.partition, self.delivery.first = message.partition(), message.offset()

    def _last(self, error: KafkaError | None, message: Message) -> None:
        if self._ok(error, message, None):
            self.delivery.last = message.offset()

    def _record(self, index: int, error: KafkaError | None, message: Message) -> None:
        if self._ok(error, message, index):
            self._each[index] = (message.partition(), message.offset())  # type: ignore[index]

    def _ok(self, error: KafkaError | None, message: Message, index: int | None) -> bool:
        self.outstanding -= 1
        if error is not None and (self.error is None or _is_verdict(error) > _is_verdict(self.error)):
            # The client may report while it raises a fatal error; then the message's methods fail.
            self.error, self.failed_index, self.failed_message = error, index, message
        return error is None


def _bytes_of(message: Message | None) -> int:
    return len(message.key() or b"") + len(message.value() or b"") if message is not None else 0


def _is_verdict(error: KafkaError) -> bool:
    """Whether the target refused this very record; else the record only failed behind another one in the queue."""
    return error.code() in (
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_MSG,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        *_NOT_THERE,
    )


def results(pending: Sequence[PendingDelivery]) -> list[Delivery]:
    """The target offsets of chunks.

    Raises:
        Undeliverable: The target refused a record; it names that record, not one that failed behind it in the queue.
        Restart: A report is missing.
    """
    raise_errors(pending)
    return [chunk.result() for chunk in pending]


def raise_errors(pending: Sequence[PendingDelivery]) -> None:
    """Raises the error of a record, if one was reported.

    Raises:
        Undeliverable: The target refused a record; it names that record, not one that failed behind it in the queue.
    """
    failed = [(chunk.error, chunk) for chunk in pending if chunk.error is not None]
    for _, chunk in sorted(failed, key=lambda each: not _is_verdict(each[0])):
        chunk.result()


def produce_chunk(producer: Producer, chunk: Chunk, pending: PendingDelivery, timeout: float = SINK_SECONDS) -> None:
    """Queues a chunk's records in order; waits while the producer's queue is full.

    The loop over the records runs in C: `produce` is mapped over the columns with positional arguments.

    Args:
        producer: The producer.
        chunk: The chunk.
        pending: Gets the delivery reports.
        timeout: Seconds that the queue may stay full.

    Raises:
        KafkaException: The producer refuses a record, for example after a fatal error.
        Restart: The queue stayed full: the target accepts nothing.
        Undeliverable: A record is larger than the whole queue.
    """
    records = chunk.columns()
    columns: list[Sequence[object] | None] = [
        records.values(),
        records.keys(),
        pending.reports(),
        _representable(chunk) if chunk.keep_timestamps else None,
        chunk.written_headers(),
    ]
    n, done = len(records), 0
    deadline = Deadline(timeout)
    while done < n:
        queued = _produce(producer, chunk, columns if not done else [c and c[done:] for c in columns], n - done)
        fits_nowhere = not queued and not len(producer)
        done += queued
        producer.poll(0 if done == n else FULL_QUEUE_WAIT)
        if queued:
            deadline = Deadline(timeout)
        elif fits_nowhere:
            raise Undeliverable(pending.sent, done, _size(columns, done), _LARGER_THAN_THE_QUEUE, final=True)
        elif deadline.expired():
            raise Restart(f"the target did not take one of {plural(len(producer), 'record')} within {timeout:g} s")


def _size(columns: Sequence[Sequence[object] | None], index: int) -> int:
    """Bytes of a record's key and value."""
    return sum(len(part) for column in columns[:2] if column and isinstance(part := column[index], bytes))


def _produce(producer: Producer, chunk: Chunk, columns: list[Sequence[object] | None], n: int) -> int:
    """Queues records until all are queued or the queue is full; returns the number of queued records."""
    values, keys, reports, timestamps, headers = columns
    clock = iter(values or ())
    arguments: list[Iterable[object]] = [
        repeat(chunk.target_topic),
        clock,
        keys or (),
        repeat(-1 if chunk.target_partition is None else chunk.target_partition),
        reports or (),
        repeat(None),
        timestamps or repeat(0),
    ]
    if headers is not None:
        arguments.append(headers)
    try:
        deque(map(producer.produce, *arguments), maxlen=0)
    except BufferError:
        # The iterators have already passed the record that did not fit.
        return n - length_hint(clock) - 1
    return n


def _representable(chunk: Chunk) -> Sequence[int]:
    """The timestamps, with 1 instead of 0: librdkafka takes 0 for "now", which would be wrong by decades."""
    timestamps = chunk.columns().timestamps()
    if 0 in timestamps:
        log.warning(
            "%s: record with timestamp 0 near offset %d is written with timestamp 1 ms (the client cannot write 0)",
            chunk.source,
            chunk.first_offset,
        )
        return [timestamp or 1 for timestamp in timestamps]
    return timestamps
