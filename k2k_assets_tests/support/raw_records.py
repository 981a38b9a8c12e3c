"""Writes records with any bytes as header keys: the protocol and some clients allow them, librdkafka does not."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable, Sequence

from k2k_assets_tests.support.kafka import SECONDS
from k2k_assets_tests.support.kafka_frames import Api, read_frame

RawHeaders = Sequence[tuple[bytes, bytes | None]]

_VERSION = 3
_MAGIC = 2
_ATTRIBUTES = 0
_UNKNOWN_EPOCH = -1
_NO_PRODUCER = struct.pack(">qhi", -1, -1, -1)


def produce_raw(servers: str, topic: str, partition: int, records: Sequence[tuple[bytes, RawHeaders]]) -> int:
    """Writes records, value and headers each, as one batch.

    Returns:
        The offset of the first.
    """
    batch = _batch(records)
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
    assert error == 0, f"the broker refused with error {error}"
    return int(offset)


def _batch(records: Sequence[tuple[bytes, RawHeaders]]) -> bytes:
    now = int(time.time() * 1000)
    packed = b"".join(_record(i, value, headers) for i, (value, headers) in enumerate(records))
    count = len(records)
    checked = struct.pack(">hiqq", _ATTRIBUTES, count - 1, now, now) + _NO_PRODUCER + struct.pack(">i", count) + packed
    rest = struct.pack(">ibI", _UNKNOWN_EPOCH, _MAGIC, _crc32c(checked)) + checked
    return struct.pack(">qi", 0, len(rest)) + rest


def _record(index: int, value: bytes, headers: RawHeaders) -> bytes:
    # Attributes, timestamp delta, offset delta, no key.
    body = b"\0" + _varint(0) + _varint(index) + _varint(-1) + _bytes(value) + _varint(len(headers))
    body += b"".join(_bytes(key) + _bytes(content) for key, content in headers)
    return _varint(len(body)) + body


def _bytes(content: bytes | None) -> bytes:
    return _varint(-1) if content is None else _varint(len(content)) + content


def _string(content: bytes) -> bytes:
    return struct.pack(">h", len(content)) + content


def _varint(value: int) -> bytes:
    """Zigzag, seven bits a byte."""
    left = value * 2 if value >= 0 else -value * 2 - 1
    packed = bytearray()
    while left > 0x7F:
        packed.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*packed, left])


def _crc32c(content: Iterable[int]) -> int:
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
