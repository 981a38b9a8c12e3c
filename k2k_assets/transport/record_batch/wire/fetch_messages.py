"""Fetch, versions 12 to 16. The records of an answer are views into it: nothing is copied.

| version | what it brings |
| --- | --- |
| 12 | the leader epoch of what was read last, so that the broker itself notices a truncation |
| 13 | topic ids in the place of names |
| 15 | no replica id |
| 16 | where a new leader is reached |
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.record_batch.wire.primitives import NO_ARRAY, NO_TAGS, Reader, array, text

OLDEST, NEWEST = 12, 16
"""The versions that are spoken here."""
WITH_TOPIC_IDS = 13
_WITHOUT_REPLICA_ID = 15
_NO_REPLICA = struct.pack(">i", -1)
_PARTITION = struct.Struct(">iiqiqi")
_LIMITS = struct.Struct(">iiibii")
_NO_SESSION = (0, -1)
_READ_COMMITTED = 1
_NO_LOG_START = -1
_DIVERGING = 0


@dataclass(frozen=True, slots=True)
class FetchPosition:
    """What is asked of one partition.

    Attributes:
        tp: The partition.
        topic_id: Its topic's id, 16 bytes.
        offset: From where on.
        leader_epoch: Leader epoch, as the metadata have it.
        last_epoch: Leader epoch of what was read last; -1 if unknown.
    """

    tp: TopicPartition
    topic_id: bytes
    offset: int
    leader_epoch: int
    last_epoch: int


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How much is asked for.

    Attributes:
        wait_ms: How long the broker waits for `least` bytes.
        least: So many bytes answer at once.
        most: Bytes of an answer; one batch may be larger.
        of_partition: Bytes of one partition in it; likewise.
    """

    wait_ms: int
    least: int
    most: int
    of_partition: int


class Aborted(NamedTuple):
    """An aborted transaction: its producer, and its first offset in the partition."""

    producer_id: int
    first_offset: int


class EpochEnd(NamedTuple):
    """The leader epoch that a log has at some offset, and the offset after its last record."""

    epoch: int
    end: int


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """What was answered about one partition.

    Attributes:
        topic: Name of the topic, or its id, 16 bytes.
        partition: Index of the partition.
        error: Error code.
        high_watermark: Its end.
        stable: Its last stable offset.
        aborted: Aborted transactions among the records.
        diverging: The newest leader epoch of the log up to the one that was read last, if it ends before the offset, or
            is not that one; else None.
        records: The batches; the last one may be cut off.
    """

    topic: str | bytes
    partition: int
    error: int
    high_watermark: int
    stable: int
    aborted: Sequence[Aborted]
    diverging: EpochEnd | None
    records: memoryview


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """An answer.

    Attributes:
        error: Error code of all of it.
        throttled: Seconds for which the broker wants to be left alone.
        partitions: What was answered about each partition.
    """

    error: int
    throttled: float
    partitions: list[FetchedPartition]


def fetch(version: int, wanted: Iterable[FetchPosition], limits: FetchLimits) -> bytes:
    """Asks for committed batches, in the order of the partitions."""
    by_topic: dict[str, list[FetchPosition]] = {}
    for each in wanted:
        by_topic.setdefault(each.tp.topic, []).append(each)
    topics = [
        (of_topic[0].topic_id if version >= WITH_TOPIC_IDS else text(topic))
        + array([_partition(each, limits.of_partition) for each in of_topic])
        + NO_TAGS
        for topic, of_topic in by_topic.items()
    ]
    replica = b"" if version >= _WITHOUT_REPLICA_ID else _NO_REPLICA
    head = _LIMITS.pack(limits.wait_ms, limits.least, limits.most, _READ_COMMITTED, *_NO_SESSION)
    no_rack = text("")
    return replica + head + array(topics) + NO_ARRAY + no_rack + NO_TAGS


def _partition(wanted: FetchPosition, most: int) -> bytes:
    return (
        _PARTITION.pack(wanted.tp.partition, wanted.leader_epoch, wanted.offset, wanted.last_epoch, _NO_LOG_START, most)
        + NO_TAGS
    )


def read_fetch(version: int, answer: memoryview) -> FetchAnswer:
    """Reads the answer to `fetch`.

    Raises:
        ProtocolError: It is none.
    """
    reader = Reader(answer)
    throttled, error = reader.throttle_seconds(), reader.int16()
    reader.int32()  # session

    def aborted() -> Aborted:
        each = Aborted(reader.int64(), reader.int64())
        reader.tags()
        return each

    def partition(topic: str | bytes) -> FetchedPartition:
        index, code = reader.int32(), reader.int16()
        high, stable = reader.int64(), reader.int64()
        reader.int64()  # log start
        gone = reader.array(aborted)
        reader.int32()  # preferred replica
        records = reader.data()
        diverging = _diverging(reader.tags().get(_DIVERGING))
        return FetchedPartition(
            topic, index, code, high, stable, gone, diverging, memoryview(b"") if records is None else records
        )

    return FetchAnswer(error, throttled, reader.of_partitions(version >= WITH_TOPIC_IDS, partition))


def _diverging(tag: memoryview | None) -> EpochEnd | None:
    if tag is None:
        return None
    reader = Reader(tag)
    found = EpochEnd(reader.int32(), reader.int64())
    return None if found == (-1, -1) else found
