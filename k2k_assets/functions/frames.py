"""Frames between a process and the one that calls functions for it: a kind and a body, over a socket.

A side that has to look after other things never waits for longer than an interval.
"""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple, get_args

_HEAD = struct.Struct("!BIQ")

INTERVAL_SECONDS = 0.25


Kind = Literal["functions", "load", "ready", "refused", "schema", "call", "all", "answer", "failed"]
_KINDS: tuple[Kind, ...] = get_args(Kind)


class Frame(NamedTuple):
    """A frame.

    Attributes:
        kind: `functions` names them to the process. To `load` one is answered by `ready` or `refused`. `schema` is that
            of the records of all calls. A `call` has the answer `all` (all records as they are), `answer`, or `failed`.
        number: Of the function, to load or call it.
        body: The rest.
    """

    kind: Kind
    number: int = 0
    body: bytes | bytearray | memoryview = b""


class Closed(Exception):
    """The other side has closed its end."""


class Frames:
    """Sends and receives frames.

    Args:
        connection: The socket, which this object closes.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._socket.setblocking(False)
        self._look: Callable[[], object] | None = None

    @contextmanager
    def looking_after(self, look: Callable[[], object]) -> Iterator[None]:
        """Calls a function in each interval in which nothing can be sent or received.

        It is forgotten afterwards: what it belongs to may have these frames, and is to end without garbage collection.

        Args:
            look: What it raises ends the wait, and then the socket is in the midst of a frame.
        """
        self._look = look
        try:
            yield
        finally:
            self._look = None

    def send(self, frame: Frame) -> None:
        """Sends a frame.

        Raises:
            Closed: The other side is gone.
        """
        body = memoryview(frame.body)
        self._send(memoryview(_HEAD.pack(_KINDS.index(frame.kind), frame.number, body.nbytes)))
        self._send(body)

    def receive(self) -> Frame:
        """Receives a frame.

        Raises:
            Closed: The other side is gone.
        """
        kind, number, size = _HEAD.unpack(self._receive(_HEAD.size))
        return Frame(_KINDS[kind], number, self._receive(size))

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()

    def _send(self, rest: memoryview) -> None:
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                self._wait(select.POLLOUT)
            except OSError:
                raise Closed from None

    def _receive(self, size: int) -> bytearray:
        found = bytearray(size)
        rest = memoryview(found)
        while rest:
            try:
                count = self._socket.recv_into(rest)
            except BlockingIOError:
                self._wait(select.POLLIN)
                continue
            except OSError:
                raise Closed from None
            if not count:
                raise Closed
            rest = rest[count:]
        return found

    def _wait(self, event: int) -> None:
        poll = select.poll()
        poll.register(self._socket, event)
        if not poll.poll(INTERVAL_SECONDS * 1000 if self._look else None) and self._look:
            self._look()
