"""What a broker of the sandbox has in its log, read from its files: no client stands between."""

from __future__ import annotations

import struct
from typing import NamedTuple

import google_crc32c

from k2k_assets.sandbox import Broker
from k2k_assets.transport.record_batch.batches.codecs import decompressed

_HEADER = struct.Struct(">qiibIhiqqqhii")
_PREFIX = 12
_CHECKSUM, _CHECKSUM_AT, _CHECKED = struct.Struct(">I"), 17, 21
_CONTROL = 0x20


class LoggedRecord(NamedTuple):
    """A record, its headers by the bytes of their keys."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]]


class LoggedBatch(NamedTuple):
    """A batch of records.

    Attributes:
        base: Its first offset.
        codec: Number of its compression.
        length: Number of its records.
        payload: Its records as they lie there.
    """

    base: int
    codec: int
    length: int
    payload: bytes

    def records(self) -> list[LoggedRecord]:
        """Its records."""
        reader = _Reader(bytes(decompressed(self.codec, memoryview(self.payload))))
        return [reader.record() for _ in range(self.length)]


def logged_batches(broker: Broker, topic: str, partition: int = 0) -> list[LoggedBatch]:
    """The batches of a partition, without those of transaction markers."""
    found = []
    for segment in sorted((broker.directory / "data" / f"{topic}-{partition}").glob("*.log")):
        content, at = segment.read_bytes(), 0
        while at < len(content):
            base, length, *_, count = fields = _HEADER.unpack_from(content, at)
            attributes, end = fields[5], at + _PREFIX + length
            if not attributes & _CONTROL:
                found.append(LoggedBatch(base, attributes & 7, count, content[at + _HEADER.size : end]))
            at = end
    return found


def damage(broker: Broker, topic: str, base: int, checksum_fits: bool = False, partition: int = 0) -> None:
    """Damages the payload of a batch where it lies, as a bad disk does; the broker hands it out unchecked.

    Args:
        broker: The broker.
        topic: The topic.
        base: First offset of the batch.
        checksum_fits: Whether the batch was damaged before its checksum was made.
        partition: The partition.
    """
    (segment,) = (broker.directory / "data" / f"{topic}-{partition}").glob("*.log")
    content, at = bytearray(segment.read_bytes()), 0
    while at < len(content):
        first, length, *_ = _HEADER.unpack_from(content, at)
        end = at + _PREFIX + length
        if first == base:
            payload = slice(at + _HEADER.size, end)
            content[payload] = b"\xff" * len(content[payload])
            if checksum_fits:
                _CHECKSUM.pack_into(
                    content, at + _CHECKSUM_AT, google_crc32c.value(bytes(content[at + _CHECKED : end]))
                )
            with segment.open("r+b") as file:
                file.seek(at)
                file.write(content[at:end])
            return
        at = end
    raise AssertionError(f"{topic} has no batch that begins at {base}")


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def record(self) -> LoggedRecord:
        self._number()  # its length
        self._at += 1  # attributes
        self._number()  # how much later than the batch
        self._number()  # how much further
        key, value = self._field(), self._field()
        return LoggedRecord(key, value, [(self._field() or b"", self._field()) for _ in range(self._number())])

    def _field(self) -> bytes | None:
        length = self._number()
        if length < 0:
            return None
        self._at += length
        return self._content[self._at - length : self._at]

    def _number(self) -> int:
        found = shift = 0
        while True:
            byte = self._content[self._at]
            self._at += 1
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)
