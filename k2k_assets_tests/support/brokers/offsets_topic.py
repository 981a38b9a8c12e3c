"""Kafka's own log of groups' commits, with all earlier commits."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets_tests.support.brokers.kafka import read_all

OFFSETS_TOPIC = "__consumer_offsets"
_OFFSET_COMMIT_KEYS = (0, 1)
_WITH_EPOCH, _FLEXIBLE = 3, 4


class GroupCommit(NamedTuple):
    """One offset that a group has committed.

    Attributes:
        group: Which group.
        partition: Of which topic partition.
        offset: Where the group goes on.
        metadata: Written beside it.
        time: When the coordinator took it, in milliseconds since the epoch.
    """

    group: str
    partition: TopicPartition
    offset: int
    metadata: str
    time: int


def group_commits(servers: str) -> Iterator[GroupCommit]:
    """All commits that a cluster's offsets topic still has, in the order in which each group made them."""
    for record in read_all(servers, OFFSETS_TOPIC):
        if record.key and record.value and struct.unpack_from(">h", record.key)[0] in _OFFSET_COMMIT_KEYS:
            yield _parsed(record.key, record.value)


def _parsed(key: bytes, value: bytes) -> GroupCommit:
    group, at = _text(key, 2)
    topic, at = _text(key, at)
    (partition,) = struct.unpack_from(">i", key, at)
    version, offset = struct.unpack_from(">hq", value)
    read = _compact_text if version >= _FLEXIBLE else _text
    metadata, at = read(value, 14 if version >= _WITH_EPOCH else 10)
    (time,) = struct.unpack_from(">q", value, at)
    # The Python client writes the end of a C string with it.
    return GroupCommit(group, TopicPartition(topic, partition), offset, metadata.rstrip("\0"), time)


def _text(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, at)
    return data[at + 2 : at + 2 + length].decode(), at + 2 + length


def _compact_text(data: bytes, at: int) -> tuple[str, int]:
    """Its length plus one comes before it, seven bits a byte, the lowest first."""
    length = shift = 0
    while True:
        length |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            break
    return data[at : at + length - 1].decode(), at + length - 1
