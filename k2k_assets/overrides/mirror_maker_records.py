"""The records in which MirrorMaker 2 keeps how far it has copied. Pure.

Connect's offsets topic (`mm2-offsets.<source>.internal` where MirrorMaker 2 runs by itself):

- key: JSON, the connector's name and a map with `cluster`, `topic` and `partition`;
- value: JSON, `offset` of the last record copied; null: it begins anew.

The offset syncs (`mm2-offset-syncs.<target>.internal` on the source, or with the source's name on the target), numbers
big-endian:

- key: topic (length in two bytes, UTF-8), partition (four bytes);
- value: source offset and target offset of one record (eight bytes each). A sync is written for some records only, so
  the last one tells the least that was copied.
"""

from __future__ import annotations

import json
import struct
from typing import NamedTuple

from k2k_assets.core.topic_partition import TopicPartition

_LENGTH, _PARTITION, _OFFSETS = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">qq")


class SourceOffset(NamedTuple):
    """How far a connector has copied a source partition.

    Attributes:
        cluster: MirrorMaker's name for the source cluster.
        source: The source partition.
        offset: Offset of the last record copied; None: it begins anew.
        connector: Name of the connector.
    """

    cluster: str
    source: TopicPartition
    offset: int | None
    connector: str


class OffsetSync(NamedTuple):
    """One record, and where its copy is.

    Attributes:
        source: The source partition.
        source_offset: The record.
        target_offset: Its copy.
    """

    source: TopicPartition
    source_offset: int
    target_offset: int


def parse_source_offset(key: bytes | None, value: bytes | None) -> SourceOffset | None:
    """Reads a record of Connect's offsets topic; None: it is of another connector than MirrorMaker's source connector.

    Raises:
        ValueError: It cannot be read.
    """
    try:
        connector, partition = json.loads(key or b"")
        where = (partition["cluster"], partition["topic"], partition["partition"])
    except (TypeError, KeyError):
        return None  # heartbeats and checkpoints, and other connectors of the same workers, have other keys
    cluster, topic, number = where
    if not (isinstance(cluster, str) and isinstance(topic, str) and isinstance(number, int)):
        return None
    offset = None
    if value is not None:
        offset = json.loads(value).get("offset")
        if not isinstance(offset, int):
            raise ValueError(f"{topic}-{number} has no offset")
    return SourceOffset(cluster, TopicPartition(topic, number), offset, str(connector))


def parse_offset_sync(key: bytes | None, value: bytes | None) -> OffsetSync:
    """Reads a record of the offset syncs topic.

    Raises:
        ValueError: It cannot be read.
    """
    if key is None or value is None or len(value) != _OFFSETS.size or len(key) < _LENGTH.size:
        raise ValueError("no offset sync")
    (length,) = _LENGTH.unpack_from(key)
    if length < 0 or len(key) != _LENGTH.size + length + _PARTITION.size:
        raise ValueError("no offset sync")
    topic = key[_LENGTH.size : _LENGTH.size + length].decode()
    (partition,) = _PARTITION.unpack_from(key, _LENGTH.size + length)
    return OffsetSync(TopicPartition(topic, partition), *_OFFSETS.unpack(value))
