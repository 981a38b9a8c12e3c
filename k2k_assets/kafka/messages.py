"""Types of messages and consumers, for packages that may not import the client library.

At run time both are the library's own classes. To the type checker, a consumed message has a topic, a partition and an
offset, and headers as a consumer returns them. The library's types are wider: they also cover errors and messages made
by hand.
"""

from __future__ import annotations

from operator import methodcaller
from typing import TYPE_CHECKING

import confluent_kafka

if TYPE_CHECKING:
    from typing_extensions import override  # in `typing` since Python 3.12

    class Message(confluent_kafka.Message):
        """A record or a partition event that a consumer returned.

        An error of the whole client has no topic, so call `error` first.
        """

        @override
        def topic(self) -> str: ...

        @override
        def partition(self) -> int: ...

        @override
        def offset(self) -> int: ...

        # The library's type also allows text, as for headers to be written.
        @override
        def headers(self) -> list[tuple[str, bytes | None]] | None: ...  # type: ignore[override]

    class Consumer(confluent_kafka.Consumer):
        """A consumer that returns such messages."""

        @override
        def poll(self, timeout: float = -1) -> Message | None: ...

        # Lists are invariant: a list of this subclass is not a list of the library's messages.
        @override
        def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]: ...  # type: ignore[override]

else:
    from confluent_kafka import Consumer, Message

__all__ = ["Consumer", "Header", "Message", "headers_of", "timestamp_of"]

# Name and value.
Header = tuple[str, bytes | None]
_read_headers = methodcaller("headers")


def headers_of(message: Message) -> list[Header] | None:
    """The headers of a record; None if the client cannot read them, because a key is not UTF-8.

    The client (confluent-kafka 2.16) returns such headers as a list with an empty slot, and sets an error at the same
    time. Who looks at that list crashes the process, so two ways to it are closed here:

    - Where code runs often, Python (3.11) calls a method without looking for an error; `methodcaller` always looks.
    - Asked a second time, the client sets no error. Ask a message once.
    """
    try:
        return _read_headers(message) or []
    except (SystemError, UnicodeDecodeError):
        return None


def timestamp_of(message: Message) -> tuple[int | None, bool]:
    """A record's timestamp in milliseconds since the epoch (None if it has none), and whether the broker set it."""
    kind, milliseconds = message.timestamp()
    known = kind != confluent_kafka.TIMESTAMP_NOT_AVAILABLE
    return (milliseconds if known else None), kind == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME
