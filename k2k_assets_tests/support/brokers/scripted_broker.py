"""A minimal broker for an admin client that reads a group's offsets, with answers that real brokers rarely give.

It shows what a client does, never that data are right: for that there are real brokers.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Container
from contextlib import suppress
from types import TracebackType

from confluent_kafka import KafkaError

from k2k_assets_tests.support.brokers.kafka_frames import Api, Request, read_frame

CLUSTER_ID = "scripted"
_HOST = "127.0.0.1"
_OLDEST = 0
# The versions that it knows: of each, the oldest that will do.
_NEWEST = {
    Api.METADATA: 2,
    Api.OFFSET_FETCH: 2,
    Api.FIND_COORDINATOR: 0,
    Api.LIST_GROUPS: 0,
    Api.API_VERSIONS: 0,
}


class ScriptedBroker:
    """Listens while it is entered; the coordinator of every group, none of which has committed anything.

    Attributes:
        group_error: What it answers when it is asked for a group's offsets; 0: nothing is wrong.
        list_error: What it answers when it is asked which groups there are; likewise.
        takes_part: Whether it is among the brokers of its cluster: not for a moment after it was frozen.
        away: At which looks it is not among them whatever `takes_part` says; the first one is 1.
        topic: One that the cluster has.
        looks: How often it was asked which brokers there are.
        unheard: How many of the next such questions it does not answer.
    """

    def __init__(self) -> None:
        self.group_error = self.list_error = 0
        self.takes_part = True
        self.away: Container[int] = ()
        self.topic = ""
        self.looks = 0
        self.unheard = 0
        self._port = 0
        self._listener: socket.socket | None = None
        self._connections: list[socket.socket] = []

    @property
    def servers(self) -> str:
        """The bootstrap address; it stays the same."""
        return f"{_HOST}:{self._port}"

    def start(self) -> None:
        """Begins to listen."""
        self._listener = socket.create_server((_HOST, self._port))
        self._port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), name="scripted-broker", daemon=True).start()

    def stop(self) -> None:
        """Breaks all connections, and refuses others."""
        for end in (self._listener, *self._connections):
            if end is not None:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
        self._listener, self._connections = None, []

    def __enter__(self) -> ScriptedBroker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                self._connections.append(connection)
                if self._listener is not listener:
                    connection.close()
                threading.Thread(target=self._serve, args=(connection,), name="scripted-broker", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError):
            while (frame := read_frame(connection)) is not None:
                request = Request.parse(frame, 0)
                if request.api == Api.METADATA:
                    self.looks += 1
                    if self.unheard:
                        self.unheard -= 1
                        continue
                answer = struct.pack(">i", request.correlation) + self._answer(request)
                connection.sendall(struct.pack(">i", len(answer)) + answer)

    def _answer(self, request: Request) -> bytes:
        address = struct.pack(">h", len(_HOST)) + _HOST.encode() + struct.pack(">i", self._port)
        match request.api:
            case Api.API_VERSIONS:
                # A client that asks in a newer version is told the old ones.
                error = KafkaError.UNSUPPORTED_VERSION if request.version > _OLDEST else 0
                versions = b"".join(struct.pack(">hhh", api, _OLDEST, newest) for api, newest in _NEWEST.items())
                return struct.pack(">hi", error, len(_NEWEST)) + versions
            case Api.METADATA:
                broker = struct.pack(">i", 1) + address + struct.pack(">h", -1)
                brokers = (
                    struct.pack(">i", 1) + broker
                    if self.takes_part and self.looks not in self.away
                    else struct.pack(">i", 0)
                )
                topic = struct.pack(">hh", 0, len(self.topic)) + self.topic.encode() + struct.pack(">bi", 0, 0)
                is_told = bool(self.topic) and _asks_for(request, self.topic)
                topics = struct.pack(">i", 1) + topic if is_told else struct.pack(">i", 0)
                return (
                    brokers + struct.pack(">h", len(CLUSTER_ID)) + CLUSTER_ID.encode() + struct.pack(">i", 1) + topics
                )
            case Api.FIND_COORDINATOR:
                return struct.pack(">hi", 0, 1) + address
            case Api.OFFSET_FETCH:
                return struct.pack(">ih", 0, self.group_error)
            case Api.LIST_GROUPS:
                return struct.pack(">hi", self.list_error, 0)
        raise AssertionError(request)


def _asks_for(request: Request, topic: str) -> bool:
    """Whether a request for metadata names a topic, or names none because it means all of them."""
    (client,) = struct.unpack_from(">h", request.frame, 12)
    named = request.frame[14 + client :]
    return bool(struct.unpack_from(">i", named)[0] < 0) or topic.encode() in named
