"""Compares the bodies of records that lie in differently cut batches.

Where neighbouring records lie equally far apart on both sides, all of them are compared at once, with the frames
between their bodies; what differs then must be in the frames.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from k2k_assets.transport.record_batch.batches.varints import Numbers
from k2k_assets.verification.content.by_batches.frames import RecordFrames

# With shorter stretches than that, slices in Python are quicker than calls of numpy.
_SHORTEST = 8


def equal_bodies(one: RecordFrames, other: RecordFrames) -> int:
    """Number of records, from the first on, whose bodies are the same bytes.

    Args:
        one: Records.
        other: As many, each with a body of the same length.
    """
    done = 0
    for first, end in [*_long_stretches(one.bodies - other.bodies), (len(one), len(one))]:
        done += _equal_slices(one.part(done, first), other.part(done, first))
        if done < first:
            return done
        if first < end and not _is_equal_stretch(one, other, first, end):
            return first + _equal_slices(one.part(first, end), other.part(first, end))
        done = end
    return done


def _long_stretches(shifts: Numbers) -> list[tuple[int, int]]:
    """Where neighbouring records lie equally far apart."""
    bounds = np.concatenate([[0], np.flatnonzero(np.diff(shifts)) + 1, [len(shifts)]])
    is_long = np.diff(bounds) >= _SHORTEST
    return list(zip(bounds[:-1][is_long].tolist(), bounds[1:][is_long].tolist(), strict=True))


def _is_equal_stretch(one: RecordFrames, other: RecordFrames, first: int, end: int) -> bool:
    begin, behind = int(one.bodies[first]), int(one.ends[end - 1])
    shift = begin - int(other.bodies[first])
    differs = one.octets[begin:behind] != other.octets[begin - shift : behind - shift]
    # Not of the first record, whose frame lies before.
    in_frames = _count_within(differs, one.starts[first + 1 : end] - begin, one.bodies[first + 1 : end] - begin)
    return int(np.count_nonzero(differs)) == in_frames


def _count_within(differs: npt.NDArray[np.bool_], starts: Numbers, ends: Numbers) -> int:
    """Number of differing bytes within the frames."""
    widths = ends - starts
    if not len(widths):
        return 0
    found = 0
    shortest = int(widths.min())
    for index in range(int(widths.max())):
        of = starts if index < shortest else starts[widths > index]
        found += int(np.count_nonzero(differs[of + index]))
    return found


def _equal_slices(one: RecordFrames, other: RecordFrames) -> int:
    places = zip(one.bodies.tolist(), one.ends.tolist(), other.bodies.tolist(), other.ends.tolist(), strict=True)
    mine, theirs = one.content, other.content
    for index, (a, b, c, d) in enumerate(places):
        if mine[a:b] != theirs[c:d]:
            return index
    return len(one)
