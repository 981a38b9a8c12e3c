"""As much of Kafka's wire format as a proxy needs: frames, request headers, and where answers name brokers."""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass, field
from enum import IntEnum

_HEADER = struct.Struct(">ihhi")


class Api(IntEnum):
    """The requests that tests speak of."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    SASL_AUTHENTICATE = 36
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_CLUSTER = 60


# Their answers tell clients where to go.
WITH_ADDRESSES = frozenset({Api.METADATA, Api.FIND_COORDINATOR, Api.DESCRIBE_CLUSTER})


@dataclass(frozen=True, slots=True)
class Request:
    """A request on its way to the broker.

    Attributes:
        frame: All its bytes, with the length before them.
        api: Its kind, see `Api`.
        version: Of its format.
        correlation: The number that its answer on the same connection will bear.
        connection: The number of that connection.
        at: When it came, monotonic seconds.
    """

    frame: bytes
    api: int
    version: int
    correlation: int
    connection: int
    at: float = field(default_factory=time.monotonic)

    @property
    def content(self) -> bytes:
        """What a repeated request has like the first one: all but its number."""
        return self.frame[_HEADER.size :]

    @classmethod
    def parse(cls, frame: bytes, connection: int) -> Request:
        """Reads the header of a frame."""
        _, api, version, correlation = _HEADER.unpack_from(frame)
        return cls(frame, api, version, correlation, connection)


def ends_in_commit(request: Request) -> bool:
    """Whether an EndTxn asks for a commit, and not for an abort: its last field, before the tags of newer versions."""
    assert request.api == Api.END_TXN
    return bool(request.frame[-1 if request.version < 3 else -2])


def correlation_of(answer: bytes) -> int:
    """The number of the request that an answer's frame belongs to."""
    return int(struct.unpack_from(">i", answer, 4)[0])


def read_frame(stream: socket.socket) -> bytes | None:
    """The next frame, with the length before it; None at the end of the connection."""
    length = _read(stream, 4)
    if length is None:
        return None
    body = _read(stream, int.from_bytes(length, "big"))
    return None if body is None else length + body


def with_address(answer: bytes, real: tuple[str, int], instead: tuple[str, int]) -> bytes:
    """An answer that names another port of the same host: everywhere the port's four bytes follow the host's name."""
    assert real[0] == instead[0]
    return answer.replace(_address(real), _address(instead))


def end_txn_error(answer: bytes, version: int) -> int:
    """The error code in the answer to an EndTxn."""
    return int(struct.unpack_from(">h", answer, 13 if version >= 3 else 12)[0])


def _address(address: tuple[str, int]) -> bytes:
    return address[0].encode() + struct.pack(">i", address[1])


def _read(stream: socket.socket, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        try:
            part = stream.recv(count - len(parts))
        except OSError:
            return None
        if not part:
            return None
        parts += part
    return bytes(parts)
