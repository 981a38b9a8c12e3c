"""The demo's consumer groups: real consumers that read a part on the source, and go on on the target.

What they read there is compared with what was left on the source: every record exactly once.
`demo-billing` stops in the middle of a topic that is full of gaps, `demo-shipping` has read all of another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from k2k_assets.core.errors import K2KError
from k2k_assets.demo.reading import SECONDS, partitions_of, read_partitions, reading_consumer
from k2k_assets.kafka.messages import Message, headers_of


class DemoGroup(NamedTuple):
    """A consumer group of the demo.

    Attributes:
        name: Its name.
        topic: What it reads.
        records: How many it reads of each partition on the source, at the least; None: all.
    """

    name: str
    topic: str
    records: int | None


GROUPS = (DemoGroup("demo-billing", "demo.payments", 700), DemoGroup("demo-shipping", "demo.orders", None))

Contents = Mapping[int, list[bytes]]
"""Digests of records in the order in which they were read, by partition."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """How a group went on on the target.

    Attributes:
        group: Its name.
        read: Records that it had read on the source.
        unread: Records that were left there.
        resumed: Of these, what it read on the target.
        skipped: Of these, what it did not.
        again: Records that it read on the target and that were not left.
        in_order: Whether it read them in the order of the source, partition by partition.
        state: What is said of its positions.
    """

    group: str
    read: int
    unread: int
    resumed: int
    skipped: int
    again: int
    in_order: bool
    state: str

    @property
    def good(self) -> bool:
        """Whether it went on at the exact record."""
        return self.in_order and not self.skipped and not self.again


def consume_on_source(servers: str) -> dict[str, int]:
    """Lets each group read its part, and commit it; returns how many records each has read."""
    with ThreadPoolExecutor(len(GROUPS)) as pool:
        read = pool.map(lambda group: _consume(servers, group.name, group.topic, group.records), GROUPS)
        return {group.name: _count(contents) for group, contents in zip(GROUPS, read, strict=True)}


def resume_on_target(source: str, target: str, read: Mapping[str, int], states: Mapping[str, str]) -> list[Resumed]:
    """Lets each group go on on the target to the end, and compares with what was unread on the source.

    Args:
        source: Bootstrap address.
        target: Bootstrap address.
        read: What each group has read on the source.
        states: What is said of each group's positions.
    """
    with ThreadPoolExecutor(2 * len(GROUPS)) as pool:
        unread = [pool.submit(_unread, source, group) for group in GROUPS]
        found = [pool.submit(_consume, target, group.name, group.topic, None) for group in GROUPS]
        return [
            _compared(group, read.get(group.name, 0), left.result(), got.result(), states.get(group.name, "not moved"))
            for group, left, got in zip(GROUPS, unread, found, strict=True)
        ]


def _compared(group: DemoGroup, read: int, unread: Contents, found: Contents, state: str) -> Resumed:
    left = Counter((partition, digest) for partition, digests in unread.items() for digest in digests)
    got = Counter((partition, digest) for partition, digests in found.items() for digest in digests)
    partitions = {*unread, *found}
    return Resumed(
        group.name,
        read,
        left.total(),
        (left & got).total(),
        (left - got).total(),
        (got - left).total(),
        all(unread.get(partition, []) == found.get(partition, []) for partition in partitions),
        state,
    )


def _consume(servers: str, group: str, topic: str, records: int | None) -> Contents:
    """Reads as an application does: joins the group, reads, commits, leaves."""
    consumer = reading_consumer(servers, group)
    try:
        partitions = partitions_of(consumer, topic)
        consumer.subscribe([topic])
        found = read_partitions(consumer, partitions, _digest, records)
        consumer.commit(asynchronous=False)
        return found
    except KafkaException as error:
        raise K2KError(f"group {group} on {servers}: {error.args[0].str()}") from None
    finally:
        consumer.close()


def _unread(servers: str, group: DemoGroup) -> Contents:
    """What lies after the group's positions. Nothing is joined or committed."""
    consumer = reading_consumer(servers, group.name)
    try:
        partitions = partitions_of(consumer, group.topic)
        wanted = [KafkaTopicPartition(tp.topic, tp.partition) for tp in partitions]
        consumer.assign(consumer.committed(wanted, timeout=SECONDS))
        return read_partitions(consumer, partitions, _digest)
    except KafkaException as error:
        raise K2KError(f"group {group.name} on {servers}: {error.args[0].str()}") from None
    finally:
        consumer.close()


def _count(contents: Contents) -> int:
    return sum(map(len, contents.values()))


def _digest(message: Message) -> bytes:
    content = (message.key(), message.value(), headers_of(message), message.timestamp()[1])
    return blake2b(repr(content).encode(), digest_size=16).digest()
