"""What a change in front of some content does to the CRC-32C of both, without looking at the content.

A CRC is linear: if two texts of the same length have the same content behind them, their sums differ by
`shifted(crc(one) ^ crc(other), len(content))`. That is a multiplication by `x ** (8 * length)` modulo the polynomial.
The length is taken byte by byte, each by a table of what it does to each byte of a sum.
"""

from __future__ import annotations

from array import array
from functools import cache

import numpy as np
from numpy.typing import NDArray

_POLYNOMIAL = 0x82F63B78  # of Castagnoli, its bits reversed as in the sum
_DIGITS = 3
_LONGEST = 256**_DIGITS - 1
_BYTES = 4
_OF_DIGIT = _BYTES * 256

_Words = NDArray[np.uint32]


def shifted(difference: int, length: int) -> int:
    """What a difference of two sums becomes behind some content.

    Args:
        difference: The exclusive or of the sums.
        length: Bytes of the content.
    """
    tables = _tables()
    while length > _LONGEST:
        difference = shifted(difference, _LONGEST)
        length -= _LONGEST
    at = 0
    while length:
        digit = length & 0xFF
        if digit:
            first = at + (digit << 10)
            difference = (
                tables[first + (difference & 0xFF)]
                ^ tables[first + 256 + (difference >> 8 & 0xFF)]
                ^ tables[first + 512 + (difference >> 16 & 0xFF)]
                ^ tables[first + 768 + (difference >> 24)]
            )
        length >>= 8
        at += 256 * _OF_DIGIT
    return difference


@cache
def _tables() -> array[int]:
    """For each byte of a length, each value of it, and each byte of a sum: what its values become. Three megabytes."""
    # What one more byte does to the sum.
    low = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        low = np.where(low & 1, low >> 1 ^ _POLYNOMIAL, low >> 1).astype(np.uint32)
    values = np.arange(256, dtype=np.uint32)
    step = np.concatenate([low, values, values << 8, values << 16]).astype(np.uint32)
    made = np.empty((_DIGITS, 256, _OF_DIGIT), np.uint32)
    for digit in made:
        digit[0] = np.concatenate([values << 8 * each for each in range(_BYTES)])
        for value in range(1, 256):
            digit[value] = _applied(step, digit[value - 1])
        step = _applied(step, digit[255])
    return array("I", made.tobytes())


def _applied(operator: _Words, words: _Words) -> _Words:
    found: _Words = operator[words & 0xFF]
    for each in range(1, _BYTES):
        found ^= operator[256 * each + (words >> 8 * each & 0xFF)]
    return found
