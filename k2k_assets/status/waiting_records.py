"""Reads the timestamp of the oldest record of each partition that is not copied yet, in bounded time."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka import clients
from k2k_assets.kafka.messages import Consumer, Message
from k2k_assets.pipeline import Pipeline

# Longest time for all partitions together; partitions without an answer by then are left out.
_SECONDS = 5.0
# At most so many are read at once, each by one fetch: those that stand still, then those with the largest lag.
_MOST_PARTITIONS = 500
_SETTINGS: dict[str, object] = {
    "enable.partition.eof": True,
    # One record of each partition is wanted. Brokers send a batch larger than the limit only for the first partition.
    "fetch.message.max.bytes": 131_072,
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 16384,
    # The defaults are 1000 and 500: a partition whose batch did not fit, or met a full queue, would wait so long.
    "fetch.queue.backoff.ms": 5,
    "fetch.error.backoff.ms": 20,
    "fetch.min.bytes": 1,
    "fetch.wait.max.ms": 10,
}


class WaitingRecords:
    """Reads the first record behind a position. It joins no group and commits nothing.

    Args:
        pipeline: The pipeline; records that its copy leaves out, such as aborted ones, are left out here too.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._properties = {"isolation.level": "read_committed", **pipeline.client_properties("source", "consumer")}
        self._consumer: Consumer | None = None
        self._known: dict[tuple[TopicPartition, int], int] = {}
        self._before: dict[TopicPartition, int] = {}

    def oldest(self, wanted: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, int | None]:
        """Timestamps of the first records behind positions, in milliseconds since the epoch.

        Args:
            wanted: Position and end of each partition; the position is not below the log start.

        Returns:
            Timestamps; None if there is no record between position and end. Partitions that could not be read in time,
            or whose record has no timestamp, are left out. Of more than 500, those that have moved since the last call
            may be left out; those that stand still are read by a later one.
        """
        self._known = {at: time for at, time in self._known.items() if wanted.get(at[0], (None,))[0] == at[1]}
        known = {tp: self._known[tp, start] for tp, (start, _) in wanted.items() if (tp, start) in self._known}
        before, self._before = self._before, {tp: start for tp, (start, _) in wanted.items()}

        def urgency(tp: TopicPartition) -> tuple[bool, int]:
            start, end = wanted[tp]
            return before.get(tp) != start, start - end

        asked = sorted(wanted.keys() - known.keys(), key=urgency)[:_MOST_PARTITIONS]
        return {**known, **(self._read({tp: wanted[tp] for tp in asked}) if asked else {})}

    def close(self) -> None:
        """Closes the client."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def __enter__(self) -> WaitingRecords:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def _read(self, wanted: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, int | None]:
        deadline = Deadline(_SECONDS)
        try:
            consumer = self._assigned(wanted, deadline)
        except KafkaException:
            return {}  # the source does not answer; the request for ends has reported that
        found: dict[TopicPartition, int | None] = {}
        left = set(wanted)
        while left and not deadline.expired():
            message = consumer.poll(min(0.2, deadline.remaining()))
            if message is None or not (tp := _place(message)) or tp not in left:
                continue
            if _is_answer(message, wanted[tp][1]):
                left.discard(tp)
                consumer.incremental_unassign([KafkaTopicPartition(*tp)])
                found.update(self._answer(message, tp, wanted[tp]))
        consumer.unassign()
        return found

    def _assigned(self, wanted: Mapping[TopicPartition, tuple[int, int]], deadline: Deadline) -> Consumer:
        if self._consumer is None:
            self._consumer = clients.consumer(self._properties, _SETTINGS)
            clients.know_cluster(self._consumer, deadline.remaining())
        self._consumer.assign([KafkaTopicPartition(*tp, start) for tp, (start, _) in wanted.items()])
        return self._consumer

    def _answer(
        self, message: Message, tp: TopicPartition, wanted: tuple[int, int]
    ) -> dict[TopicPartition, int | None]:
        """What a message says of its partition; empty if that is not known. Keeps timestamps for the next call."""
        start, end = wanted
        error = message.error()
        if error is not None:
            return {tp: None} if error.code() == KafkaError._PARTITION_EOF else {}
        if message.offset() >= end:
            return {tp: None}  # the first record was written after the end was read
        kind, timestamp = message.timestamp()
        if kind == TIMESTAMP_NOT_AVAILABLE:
            return {}
        self._known[tp, start] = timestamp
        return {tp: timestamp}


def _place(message: Message) -> TopicPartition | None:
    """The partition of a message; None for an error of the whole client."""
    error = message.error()
    if error is not None and (clients.is_about_the_group(error) or message.topic() is None):
        return None
    return TopicPartition(message.topic(), message.partition())


def _is_answer(message: Message, end: int) -> bool:
    """Whether a message settles its partition: a record, the end, or a lasting error, but no passing one."""
    error = message.error()
    if error is None:
        return True
    if error.code() == KafkaError._PARTITION_EOF:
        return message.offset() >= end
    return not (error.retriable() or clients.is_unreachable(error))
