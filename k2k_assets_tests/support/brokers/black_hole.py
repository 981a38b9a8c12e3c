"""An address that does not react to whoever connects, as behind a firewall that drops packets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

HOST = "127.0.0.1"


@contextmanager
def black_hole() -> Iterator[tuple[str, int]]:
    """Its host and port: somebody listens there whose queue is full, and takes nobody out of it."""
    with socket.create_server((HOST, 0), backlog=0) as listener, ExitStack() as stack:
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield HOST, listener.getsockname()[1]


@contextmanager
def deaf_broker() -> Iterator[tuple[str, int]]:
    """The host and port of one that whoever connects is connected to, and that says nothing, as a frozen process."""
    with socket.create_server((HOST, 0)) as listener:
        yield HOST, listener.getsockname()[1]
