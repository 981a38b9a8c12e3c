"""The numbers in records: signed (zigzag), seven bits a byte, the lowest first."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from k2k_assets.transport.record_batch.errors import Unreadable
from k2k_assets.transport.record_batch.wire import primitives

Numbers = NDArray[np.int64]
Octets = NDArray[np.uint8]
LONGEST = 10
"""Bytes of a number of 64 bits."""
_SEVEN, _ONE = np.uint64(0x7F), np.uint64(1)
_NO_END = "a number does not end"


def number(content: bytes | bytearray, at: int) -> tuple[int, int]:
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
        if shift >= 7 * LONGEST:
            raise Unreadable(_NO_END)


def numbers(content: Octets, at: Numbers, longest: int = LONGEST) -> tuple[Numbers, Numbers]:
    """The numbers at some places, and where each ends; a step for all of them at once.

    Args:
        content: What holds them.
        at: Where they begin.
        longest: Bytes that a number may have.

    Raises:
        Unreadable: One has more bytes.
        IndexError: The content ends before one does.
    """
    byte = content[at]
    values, after = byte.astype(np.uint64), at + 1
    long = np.flatnonzero(byte >= 0x80)
    if long.size:
        values[long] &= _SEVEN
        where, shift = after[long], 7
        while long.size:
            if shift >= 7 * longest:
                raise Unreadable(_NO_END)
            byte = content[where]
            values[long] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            where += 1
            after[long] = where
            more = byte >= 0x80
            long, where, shift = long[more], where[more], shift + 7
    return (values >> _ONE).astype(np.int64) ^ -(values & _ONE).astype(np.int64), after


def varint(value: int) -> bytes:
    """A number of up to 64 bits, packed."""
    return primitives.varint(value << 1 if value >= 0 else ~value << 1 | 1)


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
