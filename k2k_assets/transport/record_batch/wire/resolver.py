"""Looks names of brokers up without being held up."""

from __future__ import annotations

import socket
import threading
import time

from k2k_assets.transport.record_batch.errors import NotReached
from k2k_assets.transport.record_batch.wire.settings import Address
from k2k_assets.transport.record_batch.wire.tasks import Task, Wait

_LOOK_SECONDS = 0.005
_NO_ADDRESS = (OSError, ValueError, OverflowError)
"""What Python raises for names and ports that are none; brokers tell them."""

ResolvedNames = list[tuple[int, tuple[object, ...]]]
"""Family and address of each."""


def resolved(address: Address, deadline: float) -> Task[ResolvedNames]:
    """Looks a name up, in a thread: the system's resolver may take as long as it likes."""
    found: ResolvedNames = []
    trouble: list[Exception] = []

    def look_up(flags: int = 0) -> None:
        try:
            for family, _, _, _, place in socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=flags):
                found.append((family, place))
        except _NO_ADDRESS as error:
            trouble.append(error)

    look_up(socket.AI_NUMERICHOST | socket.AI_NUMERICSERV)
    if found:
        return found
    trouble.clear()
    thread = threading.Thread(target=look_up, name="k2k-resolver", daemon=True)
    thread.start()
    while thread.is_alive() and time.monotonic() < deadline:
        yield Wait(min(deadline, time.monotonic() + _LOOK_SECONDS))
    if not found:
        raise NotReached(f"{address[0]}: the name cannot be resolved: {trouble[0] if trouble else 'no answer in time'}")
    return found
