"""A TCP proxy between clients and one broker that delays, drops or cuts chosen requests and answers.

Clients are given its address instead of the broker's. Answers that name the broker's address are changed to name the
proxy's, so no client goes around it. All connections of all clients pass through: coordinator, leader, bootstrap.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType

from k2k_assets_tests.support.brokers.kafka_frames import (
    WITH_ADDRESSES,
    Request,
    correlation_of,
    read_frame,
    with_address,
)

_HOST = "127.0.0.1"
_SECONDS = 30.0


class Trouble(Enum):
    """What happens to a request or its answer."""

    DROPPED = "executed, and the answer never comes"
    DELAYED = "executed, and the answer comes late"
    CUT = "executed, and the connection breaks before the answer"
    LOST = "the connection breaks before the broker gets the request"


@dataclass(eq=False)
class Fault:
    """One trouble for one request: it happens once.

    Attributes:
        api: Which kind of request.
        trouble: What happens to it.
        occurrence: The how many-th request that fits, from 1, counted from when the fault was armed.
        carrying: Bytes that a request has to hold to fit, such as a topic's name.
        or_carrying: Others that will do, such as its id; none: no others do.
        seconds: Of a delay.
        by_half: Whether half of what is cut off or lost gets through before the connection breaks.
        happened: Set when it has, or at the beginning of a delay.
        request: The one that was hit.
        chosen: Set when there is one.
    """

    api: int
    trouble: Trouble
    occurrence: int = 1
    carrying: bytes = b""
    or_carrying: bytes = b""
    seconds: float = 1.0
    by_half: bool = False
    happened: threading.Event = field(default_factory=threading.Event)
    request: Request | None = None
    chosen: threading.Event = field(default_factory=threading.Event)

    def hits(self, request: Request) -> bool:
        """Whether this request is the one; counts those that fit."""
        if self.request is not None or request.api != self.api or not self._fits(request.frame):
            return False
        self.occurrence -= 1
        if self.occurrence == 0:
            self.request = request
            self.chosen.set()
        return self.request is not None

    def _fits(self, frame: bytes) -> bool:
        return self.carrying in frame or bool(self.or_carrying and self.or_carrying in frame)


class Proxy:
    """Listens on a port of its own for as long as it is entered.

    Args:
        servers: Where the broker is, as a bootstrap address.
        bytes_per_second: How fast requests get to the broker, each connection's; as fast as can be by default.

    Attributes:
        requests: All requests that came, in their order.
    """

    def __init__(self, servers: str, bytes_per_second: float = float("inf")) -> None:
        host, port = servers.split(":")
        assert host == _HOST
        self.broker = (host, int(port))
        self.bytes_per_second = bytes_per_second
        self.requests: list[Request] = []
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._connections: list[_Connection] = []
        self._listener = socket.create_server((_HOST, 0))
        self._closed = False

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return _HOST, int(self._listener.getsockname()[1])

    @property
    def servers(self) -> str:
        """The bootstrap address for clients."""
        return f"{_HOST}:{self.address[1]}"

    def arm(self, fault: Fault) -> Fault:
        """Lets a fault happen from now on; returns it."""
        with self._lock:
            self._faults.append(fault)
        return fault

    def let_through(self, fault: Fault) -> bytes:
        """Sends the broker the request that a fault has hit (once more), as a network does that held back a copy.

        Returns:
            The broker's answer, a whole frame.
        """
        assert fault.request is not None
        with socket.create_connection(self.broker, _SECONDS) as straying:
            straying.sendall(fault.request.frame)
            answer = read_frame(straying)
        assert answer is not None
        return answer

    def seen(self, api: int, carrying: bytes = b"") -> list[Request]:
        """The requests of a kind that have come so far."""
        with self._lock:
            return [request for request in self.requests if request.api == api and carrying in request.frame]

    def fault_for(self, request: Request) -> Fault | None:
        """Takes note of a request; the fault that hits it, if one does."""
        with self._lock:
            self.requests.append(request)
            return next((fault for fault in self._faults if fault.hits(request)), None)

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._closed = True
            connections = list(self._connections)
        _end(self._listener)
        for connection in connections:
            connection.close()

    def _accept(self) -> None:
        number = 0
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(self.broker, _SECONDS)
            except OSError:
                _end(client)  # the broker is down, and its clients are to see that
                continue
            number += 1
            connection = _Connection(self, number, client, broker)
            with self._lock:
                self._connections.append(connection)
                closed = self._closed
            if closed:
                connection.close()
            connection.start()


class _Connection:
    """One client's connection, and the one to the broker behind it."""

    def __init__(self, proxy: Proxy, number: int, client: socket.socket, broker: socket.socket) -> None:
        self._proxy, self._number = proxy, number
        self._client, self._broker = client, broker
        for end in (client, broker):
            end.settimeout(None)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._faults: dict[int, Fault] = {}
        self._naming: set[int] = set()
        self._closed = threading.Event()

    def start(self) -> None:
        for way in (self._requests, self._answers):
            threading.Thread(target=way, name=f"proxy-{self._number}", daemon=True).start()

    def close(self) -> None:
        """Also where the client has lost its patience with a slow broker: then that is what befell its request."""
        for fault in list(self._faults.values()):
            fault.happened.set()
        self._closed.set()
        _end(self._client)
        _end(self._broker)

    def _requests(self) -> None:
        with suppress(OSError):
            while (frame := read_frame(self._client)) is not None:
                request = Request.parse(frame, self._number)
                fault = self._proxy.fault_for(request)
                if fault and fault.trouble is Trouble.LOST:
                    fault.happened.set()
                    if fault.by_half:
                        self._broker.sendall(frame[: len(frame) // 2])
                    self.close()
                    return
                if fault:
                    self._faults[request.correlation] = fault
                if request.api in WITH_ADDRESSES:
                    self._naming.add(request.correlation)
                self._closed.wait(len(frame) / self._proxy.bytes_per_second)
                self._broker.sendall(frame)
        self.close()

    def _answers(self) -> None:
        with suppress(OSError):
            while (frame := read_frame(self._broker)) is not None:
                number = correlation_of(frame)
                fault = self._faults.pop(number, None)
                if fault and fault.by_half:
                    self._client.sendall(frame[: len(frame) // 2])
                if fault and not self._survives(fault):
                    continue
                if number in self._naming:
                    self._naming.discard(number)
                    frame = with_address(frame, self._proxy.broker, self._proxy.address)
                self._client.sendall(frame)
        self.close()

    def _survives(self, fault: Fault) -> bool:
        """Lets a fault happen to an answer; whether the client gets it all the same."""
        fault.happened.set()
        if fault.trouble is Trouble.CUT:
            self.close()
        if fault.trouble is Trouble.DELAYED:
            self._closed.wait(fault.seconds)
        return fault.trouble is Trouble.DELAYED


def _end(end: socket.socket) -> None:
    """Closes a socket that another thread may be waiting for."""
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
