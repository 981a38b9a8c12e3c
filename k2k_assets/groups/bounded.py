"""Calls into librdkafka that do not keep the time-out that they are given."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from k2k_assets.transport.errors import Restart


def bounded(step: str, seconds: float, call: Callable[..., Any], *arguments: Any) -> Any:
    """Makes a call in a thread of its own, and gives it up when it takes too long.

    `send_offsets_to_transaction` of a producer whose broker was restarted meanwhile never comes back (2.16): what was
    called stays behind in its thread, and the client that it was called on must not be used again.

    Args:
        step: Names the call in the error.
        seconds: After which it is given up.
        call: What to call.
        arguments: For the call.

    Raises:
        Restart: It was given up.
    """
    answer: list[Any] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            answer.append(call(*arguments))
        except BaseException as error:
            failure.append(error)

    # A daemon: it must not keep the process from its end.
    thread = threading.Thread(target=run, name="k2k-bounded", daemon=True)
    thread.start()
    thread.join(seconds)
    if failure:
        raise failure[0]
    if not answer:
        raise Restart(f"{step}: no answer within {seconds:g} s")
    return answer[0]
