"""What a change in front of some content does to the CRC-32C of both, without looking at the content.

A CRC is linear: if two texts of the same length have the same content behind them, their sums differ by
`shifted(crc(one) ^ crc(other), len(content))`. That is a multiplication by `x ** (8 * length)` modulo the polynomial.

```
length   ...bbbbbbbb aaaaaaaa zzzzzzzzzz
```

The library hashes `z` zeros, which takes it no time. For `a` and `b` tables hold what each of their values does to each
value of the four bytes of a sum.
"""

from __future__ import annotations

from array import array
from functools import cache

import google_crc32c
import numpy as np
from numpy.typing import NDArray

_ALL = 0xFFFFFFFF
_ZERO_BITS = 10
_ZEROS = bytes(1 << _ZERO_BITS)
_FEW = len(_ZEROS) - 1
_DIGITS = 2
_LONGEST = (1 << _ZERO_BITS + 8 * _DIGITS) - 1
_BYTES = 4
_OF_VALUE = _BYTES * 256

_Words = NDArray[np.uint32]


def shifted(difference: int, length: int) -> int:
    """What a difference of two sums becomes behind some content.

    Args:
        difference: The exclusive or of the sums.
        length: Bytes of the content.
    """
    while length > _LONGEST:
        difference = shifted(difference, _LONGEST)
        length -= _LONGEST
    if few := length & _FEW:
        # The library inverts a sum before and after.
        difference = google_crc32c.extend(difference ^ _ALL, _ZEROS[:few]) ^ _ALL
    length >>= _ZERO_BITS
    if not length:
        return difference
    tables, digit_at = _tables(), 0
    while length:
        if digit := length & 0xFF:
            at = digit_at + digit * _OF_VALUE
            difference = (
                tables[at + (difference & 0xFF)]
                ^ tables[at + 256 + (difference >> 8 & 0xFF)]
                ^ tables[at + 512 + (difference >> 16 & 0xFF)]
                ^ tables[at + 768 + (difference >> 24)]
            )
        length >>= 8
        digit_at += 256 * _OF_VALUE
    return difference


@cache
def _tables() -> array[int]:
    """For each digit of a length, each value of it, each byte of a sum: what its values become. Two megabytes."""
    made = np.empty((_DIGITS, 256, _OF_VALUE), np.uint32)
    nothing = np.concatenate([np.arange(256, dtype=np.uint32) << 8 * each for each in range(_BYTES)])
    step = np.array([google_crc32c.extend(int(each) ^ _ALL, _ZEROS) ^ _ALL for each in nothing], np.uint32)
    for digit in made:
        digit[0] = nothing
        for value in range(1, 256):
            digit[value] = _applied(step, digit[value - 1])
        step = _applied(step, digit[255])
    return array("I", made.tobytes())


def _applied(operator: _Words, words: _Words) -> _Words:
    found: _Words = operator[words & 0xFF]
    for each in range(1, _BYTES):
        found ^= operator[256 * each + (words >> 8 * each & 0xFF)]
    return found
