"""The columns of a chunk over librdkafka's messages.

All loops run in C (`map` over the accessor): a record costs some 20 ns a column, against 50 in a Python loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from confluent_kafka import Message

from k2k_assets.transport.chunk import Headers

_second = itemgetter(1)


class MessageRecords:
    """Messages of one partition, in order.

    Args:
        messages: At least one, none an error.
    """

    __slots__ = ("messages",)

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages

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

    def offsets(self) -> Sequence[int]:
        return list(map(Message.offset, self.messages))

    def keys(self) -> Sequence[bytes | None]:
        return list(map(Message.key, self.messages))

    def values(self) -> Sequence[bytes | None]:
        return list(map(Message.value, self.messages))

    def timestamps(self) -> Sequence[int]:
        return list(map(_second, map(Message.timestamp, self.messages)))

    def headers(self) -> Sequence[Headers | None]:
        return list(map(Message.headers, self.messages))

    def size(self) -> int:
        return sum(map(len, self.messages))
