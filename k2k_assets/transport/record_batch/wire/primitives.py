"""Kafka's primitive types on the wire. Nothing is read beyond the end, and nothing is allocated for a mere claim."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeVar

from k2k_assets.transport.record_batch.errors import ProtocolError

T = TypeVar("T")

_INT8, _INT16, _INT32, _INT64 = (struct.Struct(f">{kind}") for kind in "bhiq")
_LONGEST_VARINT = 5
# Of all arrays of an answer: in memory an item is larger than on the wire. Nothing that is asked for has so many.
_MOST_ITEMS = 500_000
_LONGEST_THROTTLE = 60.0
NO_TAGS = b"\0"
"""No tagged fields."""
NO_TEXT = b"\0"
"""No text."""
NO_ARRAY = b"\1"
"""An array of nothing."""


class Reader:
    """Reads one answer from front to back.

    Args:
        content: The answer.
        at: Where to begin.

    Raises:
        ProtocolError: From each method: the answer is too short, or no such type is there.
    """

    __slots__ = ("_at", "_content", "_end", "_items_left")

    def __init__(self, content: memoryview, at: int = 0) -> None:
        self._content, self._at, self._end = content, at, len(content)
        self._items_left = _MOST_ITEMS

    @property
    def left(self) -> int:
        """Number of bytes that were not read yet."""
        return self._end - self._at

    def _fixed(self, kind: struct.Struct) -> int:
        at = self._at
        self._at = at + kind.size
        if self._at > self._end:
            raise ProtocolError("an answer ends too early")
        return int(kind.unpack_from(self._content, at)[0])

    def int8(self) -> int:
        """A signed byte."""
        return self._fixed(_INT8)

    def int16(self) -> int:
        """Two bytes."""
        return self._fixed(_INT16)

    def int32(self) -> int:
        """Four bytes."""
        return self._fixed(_INT32)

    def int64(self) -> int:
        """Eight bytes."""
        return self._fixed(_INT64)

    def view(self, size: int) -> memoryview:
        """So many bytes, not copied."""
        if not 0 <= size <= self.left:
            raise ProtocolError(f"an answer claims to hold {size} bytes more, and has {self.left}")
        self._at += size
        return self._content[self._at - size : self._at]

    def varint(self) -> int:
        """An unsigned number of up to 32 bits."""
        value = 0
        for shift in range(0, 7 * _LONGEST_VARINT, 7):
            byte = self.view(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ProtocolError("an answer holds a number that does not end")

    def data(self) -> memoryview | None:
        """Bytes with their length before them, not copied."""
        length = self.varint()
        return self.view(length - 1) if length else None

    def text(self) -> str | None:
        """Text with its length before it."""
        found = self.data()
        return None if found is None else _decoded(found)

    def old_text(self) -> str | None:
        """Text as in versions that are not flexible."""
        length = self.int16()
        return None if length == -1 else _decoded(self.view(length))

    def uuid(self) -> bytes:
        """Sixteen bytes."""
        return bytes(self.view(16))

    def array(self, item: Callable[[], T]) -> list[T]:
        """An array; none is one of nothing.

        Args:
            item: Reads one of its items, and at least one byte with it.
        """
        return self._items(self.varint() - 1, item)

    def old_array(self, item: Callable[[], T]) -> list[T]:
        """As `array`, as in versions that are not flexible."""
        return self._items(self.int32(), item)

    def skip_array(self, size: int) -> None:
        """Passes over an array of items of so many bytes."""
        self.view(max(0, self.varint() - 1) * size)

    def _items(self, count: int, item: Callable[[], T]) -> list[T]:
        self._ensure(count)
        return [item() for _ in range(count)]

    def _ensure(self, count: int) -> None:
        if count > self.left:
            raise ProtocolError(f"an answer claims an array of {count} items, and has {self.left} bytes left")
        self._items_left -= max(0, count)
        if self._items_left < 0:
            raise ProtocolError(f"an answer has more than {_MOST_ITEMS} items")

    def of_partitions(self, is_by_id: bool, partition: Callable[[str | bytes], T]) -> list[T]:
        """What is said of partitions, topic by topic.

        Args:
            is_by_id: Whether topics have ids, of 16 bytes, in the place of names.
            partition: Reads what is said of one partition of a topic, its tags too.
        """
        found: list[T] = []

        def topic() -> None:
            name: str | bytes = self.uuid() if is_by_id else self.text() or ""
            found.extend(self.array(lambda: partition(name)))
            self.tags()

        self.array(topic)
        return found

    def throttle_seconds(self) -> float:
        """As `seconds_throttled`."""
        return seconds_throttled(self.int32())

    def tags(self) -> dict[int, memoryview]:
        """The tagged fields, by their number."""
        count = self.varint()
        if not count:
            return {}
        self._ensure(count)
        found: dict[int, memoryview] = {}
        for _ in range(count):
            number = self.varint()
            found[number] = self.view(self.varint())
        return found


def seconds_throttled(milliseconds: int) -> float:
    """For how long the broker wants to be left alone; it is left alone for a minute at most."""
    return min(milliseconds / 1000, _LONGEST_THROTTLE) if milliseconds > 0 else 0.0


def _decoded(found: memoryview) -> str:
    try:
        return str(found, "utf-8")
    except UnicodeDecodeError:
        raise ProtocolError("an answer holds a text that is not UTF-8") from None


def varint(value: int) -> bytes:
    """An unsigned number."""
    if value <= 0x7F:
        return bytes((value,))
    if value <= 0x3FFF:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value <= 0x1FFFFF:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    packed = bytearray()
    while value > 0x7F:
        packed.append(value & 0x7F | 0x80)
        value >>= 7
    packed.append(value)
    return bytes(packed)


def data(content: bytes) -> bytes:
    """Bytes with their length before them."""
    return varint(len(content) + 1) + content


def text(content: str) -> bytes:
    """Text with its length before it."""
    return data(content.encode())


def optional_text(content: str | None) -> bytes:
    """Text that may be absent, with its length before it."""
    return NO_TEXT if content is None else text(content)


def old_text(content: str) -> bytes:
    """Text as in versions that are not flexible."""
    encoded = content.encode()
    return _INT16.pack(len(encoded)) + encoded


def array(items: list[bytes]) -> bytes:
    """An array of packed items."""
    return varint(len(items) + 1) + b"".join(items)
