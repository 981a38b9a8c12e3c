"""Writes records with any bytes as header keys: the protocol and some clients allow them, librdkafka does not."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence

from k2k_assets_tests.support.brokers.batches import PackedRecord, pack_batch
from k2k_assets_tests.support.brokers.kafka import SECONDS
from k2k_assets_tests.support.brokers.kafka_frames import Api, read_frame

RawHeaders = Sequence[tuple[bytes, bytes | None]]

# The oldest one for zstd; the fields of the request are those of version 3.
_VERSION = 7


class BatchRefused(Exception):
    """A broker does not take a batch.

    Args:
        code: Kafka's number of the error.
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"the broker refused with error {code}")
        self.code = code


def produce_raw(servers: str, topic: str, partition: int, records: Sequence[tuple[bytes, RawHeaders]]) -> int:
    """Writes records, value and headers each, as one batch.

    Returns:
        The offset of the first.
    """
    now = int(time.time() * 1000)
    packed = [PackedRecord(delta, None, value, headers) for delta, (value, headers) in enumerate(records)]
    return produce_batch(servers, topic, partition, pack_batch(0, packed, epoch=-1, timestamp=now, latest=now))


def produce_batch(servers: str, topic: str, partition: int, batch: bytes) -> int:
    """Writes a batch as it is; returns the offset of its first record.

    Raises:
        BatchRefused: The broker does not take it.
    """
    name = _string(topic.encode())
    body = struct.pack(">hhi", -1, -1, int(SECONDS * 1000)) + struct.pack(">i", 1) + name
    body += struct.pack(">iii", 1, partition, len(batch)) + batch
    frame = struct.pack(">hhi", Api.PRODUCE, _VERSION, 1) + _string(b"raw") + body
    host, port = servers.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=SECONDS) as connection:
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        answer = read_frame(connection)
    assert answer is not None, "the broker closed the connection"
    _, error, offset = struct.unpack_from(">ihq", answer, 4 + 4 + 4 + len(name) + 4)
    if error:
        raise BatchRefused(error)
    return int(offset)


def _string(content: bytes) -> bytes:
    return struct.pack(">h", len(content)) + content
