"""Calls into librdkafka that do not keep the time-out that they are given."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import wait
from typing import TypeVar

from k2k_assets.kafka.answers import in_thread
from k2k_assets.transport.errors import Restart

T = TypeVar("T")


def bounded(step: str, seconds: float, call: Callable[[], T]) -> T:
    """Makes a call in a thread of its own, and gives it up when it takes too long.

    `send_offsets_to_transaction` of a producer whose broker was restarted meanwhile never comes back (2.16): what was
    called stays behind in its thread, and the client that it was called on must not be used again.

    Args:
        step: Names the call in the error.
        seconds: After which it is given up.
        call: What to call.

    Raises:
        Restart: It was given up.
    """
    answer = in_thread(call)
    if wait([answer], seconds).not_done:
        raise Restart(f"{step}: no answer within {seconds:g} s")
    return answer.result()
