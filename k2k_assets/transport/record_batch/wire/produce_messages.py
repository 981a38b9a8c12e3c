"""Produce, versions 9 to 13. The records of a request are views: nothing is copied.

| version | what it brings |
| --- | --- |
| 10 | who leads the partition instead, in the answer |
| 12 | a partition joins the transaction by its first records (KIP-890) |
| 13 | topic ids in the place of names |

One request has at most one batch of a partition: of two, the broker drops the first without a word.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from k2k_assets.transport.record_batch.wire.primitives import (
    NO_ARRAY,
    NO_TAGS,
    Reader,
    optional_text,
    seconds_throttled,
    text,
    varint,
)

OLDEST, NEWEST = 9, 13
"""The versions that are spoken here."""
JOINING = 12
"""The oldest version by which a partition joins the transaction."""
WITH_TOPIC_IDS = 13
_HEAD = struct.Struct(">hi")
_INDEX = struct.Struct(">i")
# What is answered about a batch that was appended: append time and log start are skipped; no refusals, words and tags.
_APPENDED = struct.Struct(">ihq16x3s")
# Numbers of topics and partitions, each one more than there are, if they are few; and what lies behind the partitions:
# tags, throttle time, tags.
_ONE_TOPIC = struct.Struct(">b16sb")
_BEHIND_TOPIC = struct.Struct(">bib")
_NOTHING_ELSE = NO_ARRAY + b"\0" + NO_TAGS
_ALL_REPLICAS = -1
_CURRENT_LEADER = 0

Piece = bytes | memoryview
WrittenPartition = tuple[str | bytes, int]
"""A partition as a request names it: name of the topic, or from version 13 on its id, 16 bytes; and its index."""
WrittenBatch = tuple[int, bytes, Piece]
"""A batch as it goes on the wire: index of its partition, the bytes before its records, and its records."""


@lru_cache(maxsize=64)
def _head(transactional_id: str | None, timeout: float) -> bytes:
    return optional_text(transactional_id) + _HEAD.pack(_ALL_REPLICAS, int(timeout * 1000))


def produce(
    transactional_id: str | None, timeout: float, batches: Mapping[str | bytes, Sequence[WrittenBatch]]
) -> tuple[list[Piece], int]:
    """Asks to append batches, one to each partition, on all replicas that are in sync.

    Args:
        transactional_id: Of the transaction; None outside transactions.
        timeout: Seconds that the broker may wait for the other replicas.
        batches: By topic, as `WrittenPartition` names it.

    Returns:
        The request in pieces, none of them empty, and its size in bytes.
    """
    pieces: list[Piece] = []
    size = 0
    before = _head(transactional_id, timeout) + varint(len(batches) + 1)
    for topic, of_topic in batches.items():
        before += (text(topic) if isinstance(topic, str) else topic) + varint(len(of_topic) + 1)
        for partition, header, payload in of_topic:
            length = len(payload)
            before += _INDEX.pack(partition) + varint(len(header) + length + 1) + header
            pieces.append(before)
            if length:
                pieces.append(payload)
            size += len(before) + length
            before = NO_TAGS
        before += NO_TAGS
    before += NO_TAGS
    pieces.append(before)
    return pieces, size + len(before)


class LeaderInstead(NamedTuple):
    """Who leads the partition, as the broker knows: node id and leader epoch."""

    node: int
    epoch: int


class ProducedPartition(NamedTuple):
    """What was answered about one partition.

    Attributes:
        topic: Name of the topic, or its id, 16 bytes.
        partition: Index of the partition.
        error: Error code.
        base_offset: Offset of the batch's first record; -1 if it was not appended.
        refused: Index in the batch, and what is wrong, of each record that the broker refuses.
        words: What the broker says about the error; may be empty.
        leader: Who leads it instead; None if the broker does not tell.
    """

    topic: str | bytes
    partition: int
    error: int
    base_offset: int
    refused: Sequence[tuple[int, str]] = ()
    words: str = ""
    leader: LeaderInstead | None = None


class ProduceAnswer(NamedTuple):
    """An answer.

    Attributes:
        throttled: Seconds for which the broker wants to be left alone.
        partitions: What was answered about each partition.
        has_errors: Whether any of these is an error.
    """

    throttled: float
    partitions: list[ProducedPartition]
    has_errors: bool


def read_produce(version: int, answer: memoryview) -> ProduceAnswer:
    """Reads the answer to `produce`.

    Raises:
        ProtocolError: It is none.
    """
    usual = _all_appended(answer) if version >= WITH_TOPIC_IDS else None
    return _with_any_outcome(version, answer) if usual is None else usual


def _with_any_outcome(version: int, answer: memoryview) -> ProduceAnswer:
    reader = Reader(answer)

    def refused() -> tuple[int, str]:
        each = reader.int32(), reader.text() or ""
        reader.tags()
        return each

    def partition(topic: str | bytes) -> ProducedPartition:
        index, code, base = reader.int32(), reader.int16(), reader.int64()
        reader.int64()  # append time
        reader.int64()  # log start
        wrong, words = tuple(reader.array(refused)), reader.text() or ""
        return ProducedPartition(topic, index, code, base, wrong, words, _leader(reader.tags().get(_CURRENT_LEADER)))

    found = reader.of_partitions(version >= WITH_TOPIC_IDS, partition)
    return ProduceAnswer(reader.throttle_seconds(), found, any(each.error for each in found))


def _all_appended(answer: memoryview) -> ProduceAnswer | None:
    """What is answered if all batches are of one topic, and were appended; None if it is anything else."""
    behind = len(answer) - _BEHIND_TOPIC.size
    count, left = divmod(behind - _ONE_TOPIC.size, _APPENDED.size)
    if count <= 0 or left:
        return None
    topics, topic, partitions = _ONE_TOPIC.unpack_from(answer)
    no_tags, throttled, none_either = _BEHIND_TOPIC.unpack_from(answer, behind)
    if topics != 2 or partitions != count + 1 or no_tags or none_either:
        return None
    found = []
    for index, code, base, rest in _APPENDED.iter_unpack(answer[_ONE_TOPIC.size : behind]):
        if code or rest != _NOTHING_ELSE:
            return None
        found.append(ProducedPartition(topic, index, code, base))
    return ProduceAnswer(seconds_throttled(throttled), found, has_errors=False)


def _leader(tag: memoryview | None) -> LeaderInstead | None:
    if tag is None:
        return None
    reader = Reader(tag)
    leader = LeaderInstead(reader.int32(), reader.int32())
    return None if leader.node < 0 else leader
