"""Chooses partitions by keys as Java's producer does: murmur2 of the key; records without one go anywhere."""

from __future__ import annotations

import random

_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C
_WORD = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF


def partition_of(key: bytes | None, partitions: int) -> int:
    """The partition of a record.

    Args:
        key: Its key.
        partitions: Number of the topic's partitions.
    """
    if key is None:
        return random.randrange(partitions)
    return (murmur2(key) & _POSITIVE) % partitions


def murmur2(content: bytes) -> int:
    """The hash, 32 bits, without sign."""
    length = len(content)
    found = (_SEED ^ length) & _WORD
    whole = length - length % 4
    for at in range(0, whole, 4):
        word = int.from_bytes(content[at : at + 4], "little") * _MULTIPLIER & _WORD
        word = (word ^ word >> 24) * _MULTIPLIER & _WORD
        found = (found * _MULTIPLIER & _WORD) ^ word
    if whole < length:
        found = (found ^ int.from_bytes(content[whole:], "little")) * _MULTIPLIER & _WORD
    found = (found ^ found >> 13) * _MULTIPLIER & _WORD
    return found ^ found >> 15
