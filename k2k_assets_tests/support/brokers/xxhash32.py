"""XXH32, the checksum in LZ4 frames, as its specification says it."""

from __future__ import annotations

import struct

_P1, _P2, _P3, _P4, _P5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
_MASK = 0xFFFFFFFF


def _rotated(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> 32 - bits) & _MASK


def xxhash32(content: bytes) -> int:
    """The checksum of some bytes, with the seed 0."""
    at = len(content) & ~15
    if at:
        lanes = [_P1 + _P2, _P2, 0, -_P1]
        for words in struct.iter_unpack("<4I", content[:at]):
            lanes = [_rotated(lane + word * _P2, 13) * _P1 for lane, word in zip(lanes, words, strict=True)]
        found = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        found = _P5
    found += len(content)
    while len(content) - at >= 4:
        found = _rotated(found + struct.unpack_from("<I", content, at)[0] * _P3, 17) * _P4
        at += 4
    for byte in content[at:]:
        found = _rotated(found + byte * _P5, 11) * _P1
    found &= _MASK
    for shift, factor in ((15, _P2), (13, _P3), (16, 1)):
        found = (found ^ found >> shift) * factor & _MASK
    return found
