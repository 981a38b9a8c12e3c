"""What brokers of tests have in common: they accept connections, and serve each of them in a thread."""

from __future__ import annotations

import socket
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"


class ListeningBroker(ABC):
    """Listens while it is entered.

    Args:
        name: Of its threads.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._connections: list[socket.socket] = []
        self._listener = socket.create_server((HOST, 0))

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    @property
    def servers(self) -> str:
        """The bootstrap address."""
        return f"{HOST}:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name=self._name, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for end in (self._listener, *self._connections):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), name=self._name, daemon=True).start()

    @abstractmethod
    def _serve(self, connection: socket.socket) -> None:
        """Answers the requests of a connection until it ends."""
