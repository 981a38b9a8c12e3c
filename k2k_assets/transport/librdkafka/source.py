"""Reads the source through librdkafka: partitions are assigned, no group is joined, nothing is written."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.stops.reasons.records import BatchUnreadable
from k2k_assets.core.stops.reasons.source_log import RecordsDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka import clients
from k2k_assets.kafka.messages import Message
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.errors import Restart, SourceStopped
from k2k_assets.transport.interface import Polled, Position
from k2k_assets.transport.librdkafka.messages import MessageRecords
from k2k_assets.transport.librdkafka.passed_over import PassedOver
from k2k_assets.transport.librdkafka.source_faults import GONE, raise_fault

log = logging.getLogger("k2k.transport")

# Our settings; they win over the user's.
_FIXED: dict[str, object] = {
    # Only the end-of-partition event gives a position past trailing transaction markers.
    "enable.partition.eof": True,
    "enable.auto.offset.store": False,
}

# Our defaults; the user's settings win. The queue limits are for the whole client, not for each partition, so a slot
# with a hundred partitions needs no more memory than a slot with one.
_PREFERRED: dict[str, object] = {
    "isolation.level": "read_committed",
    "check.crcs": True,
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 32 * 1024,
    "fetch.message.max.bytes": 1024 * 1024,
    "fetch.max.bytes": 16 * 1024 * 1024,
    # By default a fetcher pauses for a second whenever the queue is full, and small queues are full all the time.
    "fetch.queue.backoff.ms": 2,
    "fetch.error.backoff.ms": 100,
    "fetch.wait.max.ms": 500,
    "socket.nagle.disable": True,
}

_METADATA_SECONDS = 15.0
# Longest search for a committed record before a position.
_UNDECIDED_SECONDS = 15.0

# Error codes of a seek in a partition that was assigned a moment ago; it is tried again.
_NOT_YET = {KafkaError._STATE, KafkaError._IN_PROGRESS, KafkaError._PREV_IN_PROGRESS, KafkaError._TIMED_OUT}


class LibrdkafkaSource:
    """Reads the source with one librdkafka consumer.

    Args:
        properties: The user's consumer settings, librdkafka names.
        buffer_bytes: About how many bytes it fetches ahead; None: the default.
    """

    def __init__(self, properties: Mapping[str, object], buffer_bytes: int | None = None) -> None:
        self._properties = properties
        self._reads_uncommitted = properties.get("isolation.level") == "read_uncommitted"
        self._passed_over = PassedOver({}, self._first_committed)
        self._resumes: dict[TopicPartition, int] = {}
        self._stopped: SourceStopped | None = None
        self._consumer = clients.consumer({**_PREFERRED, **_buffer(buffer_bytes), **properties}, _FIXED)

    def assign(
        self, positions: Mapping[TopicPartition, Position], keep_waiting: Callable[[], None] | None = None
    ) -> None:
        try:
            clients.know_cluster(self._consumer, _METADATA_SECONDS)
        except KafkaException as error:
            raise clients.unreachable("source", self._properties, clients.error_of(error).str()) from None
        self._stopped = None
        at = {tp: _kafka_position(tp, position) for tp, position in positions.items()}
        if self._reads_uncommitted:
            self._passed_over = PassedOver(positions, self._first_committed)
        self._resumes = {tp: position.resume for tp, position in positions.items() if position.resume is not None}
        self._consumer.assign(list(at.values()))
        for tp, position in positions.items():
            if position.leader_epoch is not None and position.leader_epoch >= 0:
                if keep_waiting is not None:
                    keep_waiting()
                self._validate(at[tp])

    def _validate(self, at: KafkaTopicPartition) -> None:
        """Makes the client check that the broker's log still contains the last record that was read (KIP-320).

        librdkafka (2.16) does not check on assignment, only when the leader changes and when it seeks; so this seeks.
        """
        deadline = Deadline(_METADATA_SECONDS)
        while True:
            try:
                self._consumer.seek(at)
                return
            except KafkaException as exception:
                error = clients.error_of(exception)
                if error.code() in GONE:
                    return  # the next poll reports the error
                if error.code() not in _NOT_YET or deadline.expired():
                    raise Restart(f"source consumer: {at.topic}-{at.partition}: {error.str()}") from None
                with suppress(KafkaException):  # the next round raises the error, or the time is over
                    self._consumer.list_topics(at.topic, timeout=deadline.remaining())

    def poll(self, limit: int, timeout: float) -> Polled:
        if self._stopped is not None:
            raise self._stopped
        # `consume(n, t)` waits for n messages or for t, which delays a trickle. So take the messages that are there; if
        # there are none, wait for one.
        try:
            messages = self._consumer.consume(limit, 0)
            if not messages and timeout > 0:
                one = self._consumer.poll(timeout)
                if one is not None:
                    messages = [one]
                    if limit > 1:
                        messages += self._consumer.consume(limit - 1, 0)
        except KafkaException as error:
            raise Restart(f"source consumer: {clients.error_of(error).str()}") from None
        polled = Polled()
        if messages and any(map(Message.error, messages)):
            messages, polled.ends = self._without_events(messages)
        if messages and self._passed_over:
            read = len(messages)
            messages = self._passed_over.without(messages)
            polled.passed = read - len(messages)
        if messages:
            polled.chunks = _chunks(messages)
        return polled

    def gather(self, seconds: float) -> None:
        time.sleep(seconds)  # the client fetches in a thread of its own

    def close(self) -> None:
        self._consumer.close()

    def _without_events(self, messages: list[Message]) -> tuple[list[Message], dict[TopicPartition, int]]:
        """The records, and the ends that were reached; raises what has gone wrong.

        What came before a batch that cannot be read is handed out first, and it is raised with the next poll: the
        client goes on behind it, so nothing that came after it counts.
        """
        records, ends = [], {}
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                ends[TopicPartition(message.topic(), message.partition())] = message.offset()
            elif not clients.is_about_the_group(error):
                try:
                    raise_fault(error, message, self._log_ends)
                except SourceStopped as stopped:
                    if self._passes_deleted(stopped.reason):
                        continue
                    if not isinstance(stopped.reason, BatchUnreadable) or not (records or ends):
                        raise
                    self._stopped = stopped
                    break
        return records, ends

    def _passes_deleted(self, reason: StopReason) -> bool:
        """Reads on behind what the source has deleted, if that is nothing to copy; returns whether it is.

        Without the leader epoch: that of the last record holds right behind it only.
        """
        if not isinstance(reason, RecordsDeleted) or reason.log_start > self._resumes.get(reason.source, -1):
            return False
        at = KafkaTopicPartition(*reason.source, self._resumes.pop(reason.source))
        self._consumer.incremental_unassign([at])
        self._consumer.incremental_assign([at])
        return True

    def _first_committed(self, tp: TopicPartition, start: int, end: int) -> int | None:
        """Implements `FirstCommitted`: reads the same offsets with a read_committed consumer.

        Raises:
            Restart: The source does not answer.
        """
        deadline = Deadline(_UNDECIDED_SECONDS)
        trouble: KafkaError | None = None
        settings = {**_FIXED, "isolation.level": "read_committed"}
        looking = clients.consumer({**_PREFERRED, **self._properties}, settings)
        try:
            looking.assign([KafkaTopicPartition(*tp, start)])
            while not deadline.expired():
                message = looking.poll(deadline.remaining())
                if message is None:
                    continue
                error, offset = message.error(), message.offset()
                if error is None:
                    return min(offset, end)
                if error.code() == KafkaError._PARTITION_EOF:
                    trouble = None
                    if offset >= end:
                        return end
                elif clients.is_unreachable(error):
                    trouble = error
        except KafkaException as exception:
            trouble = clients.error_of(exception)
        finally:
            looking.close()
        if trouble is not None:
            raise Restart(f"source consumer: {trouble.str()}")
        return None

    def _log_ends(self, tp: TopicPartition) -> tuple[int, int] | None:
        """Log start and end of a partition; None if the source does not answer."""
        try:
            return self._consumer.get_watermark_offsets(KafkaTopicPartition(*tp), _METADATA_SECONDS)
        except KafkaException:
            return None


def _buffer(most: int | None) -> dict[str, object]:
    """The settings of a client that fetches at most so many bytes ahead."""
    if most is None:
        return {}
    fetch = max(1024, most // 2)  # of each partition, and of all in one answer: one comes while the other is read
    preferred = {"fetch.message.max.bytes": 1024 * 1024, "fetch.max.bytes": 16 * 1024 * 1024}
    preferred["message.max.bytes"] = 1_000_000  # the client's default, and no more than an answer; larger ones come too
    sizes: dict[str, object] = {name: min(fetch, size) for name, size in preferred.items()}
    return {**sizes, "queued.max.messages.kbytes": max(1, most // 1024)}


def _kafka_position(tp: TopicPartition, at: Position) -> KafkaTopicPartition:
    if at.leader_epoch is None or at.leader_epoch < 0:
        return KafkaTopicPartition(tp.topic, tp.partition, at.offset)
    return KafkaTopicPartition(tp.topic, tp.partition, at.offset, leader_epoch=at.leader_epoch)


def _chunks(messages: list[Message]) -> list[Chunk]:
    """Makes one chunk for each partition. Nearly all batches hold one partition only: these need no Python loop."""
    partitions = list(map(Message.partition, messages))
    topics = list(map(Message.topic, messages))
    if partitions.count(partitions[0]) == len(partitions) and topics.count(topics[0]) == len(topics):
        return [Chunk(TopicPartition(topics[0], partitions[0]), MessageRecords(messages))]
    groups: dict[tuple[str, int], list[Message]] = {}
    for key, message in zip(zip(topics, partitions, strict=True), messages, strict=True):
        group = groups.get(key)
        if group is None:
            groups[key] = [message]
        else:
            group.append(message)
    return [Chunk(TopicPartition(*key), MessageRecords(group)) for key, group in groups.items()]
