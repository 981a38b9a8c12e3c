"""Reads ranges of a topic's records in bulk: inside Spark tasks, by assignment, with deadlines.

The copy loop does not use it: records are returned as they are, in order, and nothing is committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import K2KError
from k2k_assets.kafka import clients
from k2k_assets.kafka.messages import Consumer, Message

# A partition that delivers nothing for so long is stuck, not slow; the job fails with its name instead of hanging.
STALL_SECONDS = 60.0
_CHUNK = 2000
_SETTINGS = {
    "enable.partition.eof": True,
    "queued.max.messages.kbytes": 16384,
    # With the default, 1000, a partition whose queue is full is not fetched for a second.
    "fetch.queue.backoff.ms": 5,
}
_DELETED = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})


class ReadStalled(K2KError):
    """A range could not be read to its end."""


class OffsetRange(NamedTuple):
    """A stretch of one partition: start inclusive, end exclusive."""

    topic: str
    partition: int
    start: int
    end: int


def read_range(
    properties: Mapping[str, object], wanted: OffsetRange, skip_deleted: bool = False
) -> Iterator[list[Message]]:
    """Reads one range; see `read_ranges`."""
    for _, chunk in read_ranges(properties, [wanted], skip_deleted):
        yield chunk


def read_ranges(
    properties: Mapping[str, object], ranges: Iterable[OffsetRange], skip_deleted: bool = False
) -> Iterator[tuple[OffsetRange, list[Message]]]:
    """Reads ranges one after the other with one client; yields their records in order, in chunks.

    Args:
        properties: Consumer settings, librdkafka names; without an `isolation.level`, read_committed.
        ranges: Ranges whose ends do not lie above the last stable offsets.
        skip_deleted: Whether to go on at the log start when retention has removed a range's start meanwhile.

    Raises:
        ReadStalled: Nothing arrived for a minute, or a range cannot be read.
    """
    consumer: Consumer | None = None
    try:
        for wanted in ranges:
            if wanted.start >= wanted.end:
                continue
            consumer = consumer or _consumer(properties, wanted)
            consumer.assign([KafkaTopicPartition(wanted.topic, wanted.partition, wanted.start)])
            for chunk in _chunks(consumer, wanted, skip_deleted):
                yield wanted, chunk
    finally:
        if consumer:
            consumer.close()


def _consumer(properties: Mapping[str, object], first: OffsetRange) -> Consumer:
    consumer = clients.consumer({"isolation.level": "read_committed", **properties}, _SETTINGS)
    try:
        clients.know_cluster(consumer, STALL_SECONDS)
    except KafkaException as error:
        consumer.close()
        raise ReadStalled(f"{_where(first, first.start)}: {clients.error_of(error).str()}") from None
    return consumer


def _chunks(consumer: Consumer, wanted: OffsetRange, skip_deleted: bool) -> Iterator[list[Message]]:
    position = wanted.start
    deadline = Deadline(STALL_SECONDS)
    while True:
        # `consume` with a time-out waits for a full chunk or for all of the time-out.
        first = consumer.poll(0.5)
        messages = [] if first is None else [first, *consumer.consume(_CHUNK, 0)]
        if messages:
            deadline = Deadline(STALL_SECONDS)
        elif deadline.expired():
            raise ReadStalled(f"{_where(wanted, position)}: no record and no end for {STALL_SECONDS:g} s")
        chunk: list[Message] = []
        ended = False
        for message in messages:
            if (message.topic(), message.partition()) != (wanted.topic, wanted.partition):
                continue  # a message of the range before
            error = message.error()
            if error is None:
                ended = ended or message.offset() >= wanted.end - 1
                if message.offset() < wanted.end:
                    chunk.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended = ended or message.offset() >= wanted.end
            elif error.code() in _DELETED and skip_deleted:
                ended = ended or _skip_to_log_start(consumer, wanted)
            elif not error.retriable() and not clients.is_about_the_group(error):
                raise ReadStalled(f"{_where(wanted, position)}: {error.str()} ({error.name()})")
        if chunk:
            position = chunk[-1].offset() + 1
            yield chunk
        if ended:
            return


def _skip_to_log_start(consumer: Consumer, wanted: OffsetRange) -> bool:
    """Continues at the log start; returns whether the log start lies behind the range."""
    low, _ = consumer.get_watermark_offsets(KafkaTopicPartition(wanted.topic, wanted.partition), timeout=15)
    if low < wanted.end:
        consumer.assign([KafkaTopicPartition(wanted.topic, wanted.partition, low)])
    return low >= wanted.end


def _where(wanted: OffsetRange, position: int) -> str:
    return f"reading {wanted.topic}-{wanted.partition} from {wanted.start} to {wanted.end} stopped at {position}"
