"""Bounds calls into librdkafka that do not keep the time-out that they are given."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import wait
from typing import TypeVar

from k2k_assets.kafka.answers import in_thread
from k2k_assets.transport.errors import Restart

T = TypeVar("T")


def bounded(step: str, seconds: float, call: Callable[[], T]) -> T:
    """Makes a call in a thread of its own, and abandons it when it takes too long.

    `send_offsets_to_transaction` never returns if the broker was restarted meanwhile (2.16). An abandoned call stays
    behind in its thread, and the client must not be used again.

    Args:
        step: Names the call in the error.
        seconds: Longest time for the call.
        call: The function to call.

    Raises:
        Restart: The call took too long, and was abandoned.
    """
    answer = in_thread(call)
    if wait([answer], seconds).not_done:
        raise Restart(f"{step}: no answer within {seconds:g} s")
    return answer.result()
