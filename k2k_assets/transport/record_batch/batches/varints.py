"""The numbers in records: signed (zigzag), seven bits a byte, the lowest first."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from k2k_assets.transport.record_batch.errors import Unreadable

_LONGEST = 63


def number(content: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and where it ends.

    Raises:
        Unreadable: It has too many bytes.
        IndexError: The content ends before it does.
    """
    byte = content[at]
    if byte < 0x80:
        return byte >> 1 ^ -(byte & 1), at + 1
    value, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = content[at]
        if byte < 0x80:
            value |= byte << shift
            return value >> 1 ^ -(value & 1), at + 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > _LONGEST:
            raise Unreadable("a number does not end")


def varint(value: int) -> bytes:
    """A number of up to 64 bits, packed."""
    left = value << 1 if value >= 0 else ~value << 1 | 1
    found = bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


# Most numbers are of one or two bytes.
_SHORT = [varint(value) for value in range(1 << 13)]


def varints(values: Sequence[int]) -> list[bytes]:
    """Numbers, packed.

    Args:
        values: At least one.
    """
    if min(values) >= 0:
        with suppress(IndexError):
            return list(map(_SHORT.__getitem__, values))
    return list(map(varint, values))


def length(size: int) -> bytes:
    """A length, packed."""
    return _SHORT[size] if size < len(_SHORT) else varint(size)


def first_varints(count: int) -> list[bytes]:
    """The numbers from 0 on, packed."""
    return _SHORT[:count] if count <= len(_SHORT) else list(map(varint, range(count)))
