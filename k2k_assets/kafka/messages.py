"""Messages and consumers, for rooms that do not know the client library.

When the program runs, both are the library's own. To the type checker a message that was consumed has a place in the
log, and headers as they are read. The library's types allow more: for messages that are made by hand, and for errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import confluent_kafka

if TYPE_CHECKING:
    from typing_extensions import override  # in `typing` since Python 3.12

    class Message(confluent_kafka.Message):
        """What a consumer returned: a record, or an event of one partition.

        An error of the whole client has no topic: `error` is to be asked first.
        """

        @override
        def topic(self) -> str: ...

        @override
        def partition(self) -> int: ...

        @override
        def offset(self) -> int: ...

        # The library says a list that may also hold text, as for those that are to be written.
        @override
        def headers(self) -> list[tuple[str, bytes | None]] | None: ...  # type: ignore[override]

    class Consumer(confluent_kafka.Consumer):
        """Returns such messages."""

        @override
        def poll(self, timeout: float = -1) -> Message | None: ...

        # A list of a kind of messages is not a list of messages, to which others could be added.
        @override
        def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]: ...  # type: ignore[override]

else:
    from confluent_kafka import Consumer, Message

__all__ = ["Consumer", "Message", "timestamp_of"]


def timestamp_of(message: Message) -> tuple[int | None, bool]:
    """A record's timestamp, milliseconds since the epoch, None if it has none; and whether a broker has set it."""
    kind, milliseconds = message.timestamp()
    known = kind != confluent_kafka.TIMESTAMP_NOT_AVAILABLE
    return (milliseconds if known else None), kind == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME
