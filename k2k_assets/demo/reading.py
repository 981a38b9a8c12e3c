"""How the demo reads topics: with ordinary consumers, up to the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import K2KError
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.messages import Consumer, Message

T = TypeVar("T")

SECONDS = 60.0
_BATCH = 50


def reading_consumer(servers: str, group: str) -> Consumer:
    """A consumer of committed records, which commits nothing by itself."""
    settings: dict[str, object] = {
        "bootstrap.servers": servers,
        "group.id": group,
        "group.protocol": "classic",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        # A position that was not translated would be read from the start: that shows.
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
        "reconnect.backoff.ms": 10,
        "fetch.wait.max.ms": 50,
        "log_level": 0,
    }
    return Consumer(settings)


def partitions_of(consumer: Consumer, topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, p) for p in consumer.list_topics(topic, timeout=SECONDS).topics[topic].partitions]


def read_partitions(
    consumer: Consumer, partitions: Iterable[TopicPartition], of: Callable[[Message], T], records: int | None = None
) -> dict[int, list[T]]:
    """Reads partitions of one topic.

    Args:
        consumer: Subscribed to the topic, or assigned its partitions.
        partitions: Those that it reads.
        of: What is kept of a record.
        records: How many of each partition; None: to its end.

    Returns:
        What was kept, by partition, in order.

    Raises:
        K2KError: They are not read within `SECONDS`.
        KafkaException: The cluster reports an error.
    """
    found: dict[int, list[T]] = defaultdict(list)
    open_partitions = dict.fromkeys(tp.partition for tp in partitions)
    deadline = Deadline(SECONDS)
    while open_partitions:
        if deadline.expired():
            raise K2KError(f"partitions {sorted(open_partitions)} were not read to their end within {SECONDS:g} s.")
        for message in consumer.consume(_BATCH, 0.2):
            error = message.error()
            if error is None:
                kept = found[message.partition()]
                kept.append(of(message))
                if len(kept) == records:
                    open_partitions.pop(message.partition(), None)
                    consumer.pause([KafkaTopicPartition(message.topic(), message.partition())])
            elif error.code() == KafkaError._PARTITION_EOF:
                open_partitions.pop(message.partition(), None)
            elif not error.retriable():
                raise KafkaException(error)
    return found


def read_values(servers: str, topic: str) -> dict[int, list[bytes | None]]:
    """The values of a topic, by partition, in order.

    Raises:
        K2KError: It cannot be read.
    """
    consumer = reading_consumer(servers, "demo-reader")
    try:
        partitions = partitions_of(consumer, topic)
        consumer.assign([KafkaTopicPartition(tp.topic, tp.partition, 0) for tp in partitions])
        return read_partitions(consumer, partitions, lambda message: message.value())
    except KafkaException as error:
        raise K2KError(f"{topic} on {servers}: {error.args[0].str()}") from None
    finally:
        consumer.close()
