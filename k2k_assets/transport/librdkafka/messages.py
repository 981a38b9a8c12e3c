"""The columns of a chunk over librdkafka's messages.

All loops run in C (`map` over the accessor): a record costs some 20 ns a column, against 50 in a Python loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from operator import itemgetter, length_hint

from k2k_assets.core.stops.reasons.records import HeaderUnreadable
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.messages import Message
from k2k_assets.transport.chunk import UnreadableRecord
from k2k_assets.transport.headers import Headers

_second = itemgetter(1)


class MessageRecords:
    """Messages of one partition, in order, as `Columns`.

    Args:
        messages: The messages; none may be an error event.
        headers: Their headers, if these were read already.
    """

    __slots__ = ("_headers", "messages")

    def __init__(self, messages: list[Message], headers: list[Headers | None] | None = None) -> None:
        self.messages = messages
        self._headers = headers

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def first_offset(self) -> int:
        return self.messages[0].offset()

    @property
    def last_offset(self) -> int:
        return self.messages[-1].offset()

    @property
    def leader_epoch(self) -> int | None:
        return self.messages[-1].leader_epoch()

    @property
    def first_leader_epoch(self) -> int | None:
        return self.messages[0].leader_epoch()

    @property
    def first_timestamp(self) -> int:
        return self.messages[0].timestamp()[1]

    def offsets(self) -> Sequence[int]:
        return list(map(Message.offset, self.messages))

    def keys(self) -> Sequence[bytes | None]:
        return list(map(Message.key, self.messages))

    def values(self) -> Sequence[bytes | None]:
        return list(map(Message.value, self.messages))

    def timestamps(self) -> Sequence[int]:
        return list(map(_second, map(Message.timestamp, self.messages)))

    def headers(self) -> Sequence[Headers | None]:
        """The headers of each record.

        Raises:
            UnreadableRecord: A record has a header whose key is not UTF-8. Do not ask for its headers again: the client
                (confluent-kafka 2.16) would return a list with an empty slot, which crashes the process.
        """
        if self._headers is None:
            messages = iter(self.messages)
            try:
                self._headers = list(map(Message.headers, messages))
            except (SystemError, UnicodeDecodeError) as raised:
                # The iterator stopped at the message at fault.
                raise _unreadable(self.messages, len(self.messages) - length_hint(messages) - 1, raised) from None
        return self._headers

    def columns(self) -> MessageRecords:
        return self

    def before(self, index: int) -> MessageRecords:
        return MessageRecords(self.messages[:index])

    def select(self, kept: Sequence[bool]) -> MessageRecords:
        headers = None if self._headers is None else list(compress(self._headers, kept))
        return MessageRecords(list(compress(self.messages, kept)), headers)

    def size(self) -> int:
        return sum(map(len, self.messages))


def _unreadable(messages: list[Message], index: int, raised: Exception) -> Exception:
    """Turns the client's error about unreadable headers into `UnreadableRecord`; returns other errors unchanged."""
    # The client returns headers without clearing the error; the interpreter turns that into a SystemError.
    error = raised if isinstance(raised, UnicodeDecodeError) else raised.__cause__
    message = messages[index]
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if not isinstance(error, UnicodeDecodeError) or topic is None or partition is None or offset is None:
        return raised
    source = TopicPartition(topic, partition)
    return UnreadableRecord(index, HeaderUnreadable(source, offset, _shortened(error.object)))


def _shortened(content: bytes, most: int = 40) -> str:
    return repr(content) if len(content) <= most else f"{content[:most]!r}... {len(content)} bytes"
